// One root (a server, a bucket) as a file system of Java.
package io.edt.nf;

import java.nio.file.FileStore;
import java.nio.file.FileSystem;
import java.nio.file.FileSystems;
import java.nio.file.Path;
import java.nio.file.PathMatcher;
import java.nio.file.WatchService;
import java.nio.file.attribute.UserPrincipalLookupService;
import java.nio.file.spi.FileSystemProvider;
import java.util.List;
import java.util.Set;

/** All paths below one root. */
final class EdtFileSystem extends FileSystem {
    private final EdtFileSystemProvider provider;
    /** Any place at this root. */
    final Place root;

    EdtFileSystem(EdtFileSystemProvider provider, Place root) {
        this.provider = provider;
        this.root = root.at("");
    }

    @Override
    public FileSystemProvider provider() {
        return provider;
    }

    @Override
    public void close() {
        // The engine keeps connections for all, until the JVM ends.
    }

    @Override
    public boolean isOpen() {
        return true;
    }

    @Override
    public boolean isReadOnly() {
        return root.isWeb();
    }

    @Override
    public String getSeparator() {
        return "/";
    }

    @Override
    public Iterable<Path> getRootDirectories() {
        return List.of(new EdtPath(this, "", true, ""));
    }

    @Override
    public Iterable<FileStore> getFileStores() {
        return List.of();
    }

    @Override
    public Set<String> supportedFileAttributeViews() {
        return Set.of("basic");
    }

    /** Nextflow takes a URL that it has split at its pattern without the scheme: then the authority comes first. */
    @Override
    public Path getPath(String first, String... more) {
        String text = more.length == 0 ? first : first + "/" + String.join("/", more);
        String bare = text.startsWith(root.scheme + "://") ? text.substring(root.scheme.length() + 3) : text;
        if (bare.equals(root.authority) || bare.startsWith(root.authority + "/")) {
            Place place = Place.parse(root.scheme + "://" + bare, Set.of(root.scheme));
            return new EdtPath(this, place.path, true, place.isAlone() ? place.url() : "");
        }
        return named(text);
    }

    /** A path of names as they are. */
    EdtPath named(String text) {
        return new EdtPath(this, relative(text), text.startsWith("/"), "");
    }

    /** The names of a path as Java writes it: `..` in front of a relative one stays. */
    static String relative(String text) {
        StringBuilder names = new StringBuilder();
        for (String name : text.split("/")) {
            if (!name.isEmpty() && !name.equals(".")) {
                names.append(names.length() == 0 ? "" : "/").append(name);
            }
        }
        return names.toString();
    }

    /** Patterns are parts of URLs, and are matched with names as they are. */
    @Override
    public PathMatcher getPathMatcher(String pattern) {
        PathMatcher matcher = FileSystems.getDefault().getPathMatcher(Place.decoded(pattern));
        return path -> matcher.matches(FileSystems.getDefault().getPath(path instanceof EdtPath ? ((EdtPath) path).named() : path.toString()));
    }

    @Override
    public UserPrincipalLookupService getUserPrincipalLookupService() {
        throw new UnsupportedOperationException("edt knows no users");
    }

    @Override
    public WatchService newWatchService() {
        throw new UnsupportedOperationException("an endpoint of edt cannot be watched");
    }
}
