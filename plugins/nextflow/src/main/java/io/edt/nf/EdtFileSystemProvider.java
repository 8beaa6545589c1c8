// What Nextflow does with paths of edt: each call converts, asks the engine, and tells failures as Java knows them.
package io.edt.nf;

import java.io.IOException;
import java.net.URI;
import java.nio.channels.SeekableByteChannel;
import java.nio.file.AccessMode;
import java.nio.file.CopyOption;
import java.nio.file.DirectoryStream;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.FileStore;
import java.nio.file.FileSystem;
import java.nio.file.FileSystems;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.NotDirectoryException;
import java.nio.file.OpenOption;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.BasicFileAttributeView;
import java.nio.file.attribute.BasicFileAttributes;
import java.nio.file.attribute.FileAttribute;
import java.nio.file.attribute.FileAttributeView;
import java.nio.file.attribute.FileTime;
import java.nio.file.spi.FileSystemProvider;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import nextflow.file.FileSystemTransferAware;

/** The provider of the scheme `edt`, and of all that edt claims besides. */
public final class EdtFileSystemProvider extends FileSystemProvider implements FileSystemTransferAware {
    /** Nextflow takes the `?` of an address for a pattern, unless its provider says that it is of the web. */
    private static final EdtFileSystemProvider WEB = new EdtFileSystemProvider("https");

    private final Map<String, EdtFileSystem> systems = new ConcurrentHashMap<>();
    private final String scheme;

    /** Called by Nextflow. */
    public EdtFileSystemProvider() {
        this("edt");
    }

    private EdtFileSystemProvider(String scheme) {
        this.scheme = scheme;
    }

    /** The path of a place. */
    EdtPath path(Place place) {
        Pools.widen();
        EdtFileSystemProvider provider = place.isWeb() ? WEB : this;
        EdtFileSystem system = systems.computeIfAbsent(place.shownRoot(), root -> new EdtFileSystem(provider, place));
        return new EdtPath(system, place.path, true, place.isAlone() ? place.url() : "");
    }

    @Override
    public String getScheme() {
        return scheme;
    }

    @Override
    public FileSystem newFileSystem(URI uri, Map<String, ?> env) {
        return getFileSystem(uri);
    }

    @Override
    public FileSystem getFileSystem(URI uri) {
        return getPath(uri).getFileSystem();
    }

    @Override
    public Path getPath(URI uri) {
        Place place = Place.parse(uri.toString(), Engine.settings().schemes);
        if (place == null) {
            throw new IllegalArgumentException("not an address of edt: " + uri);
        }
        return path(place);
    }

    @Override
    public SeekableByteChannel newByteChannel(Path path, Set<? extends OpenOption> options, FileAttribute<?>... attributes)
            throws IOException {
        Place place = place(path);
        Engine engine = Engine.get();
        if (!options.contains(StandardOpenOption.WRITE) && !options.contains(StandardOpenOption.APPEND)) {
            try {
                return new Channels.Reading(engine, place);
            } catch (EdtException error) {
                throw error.about(path);
            }
        }
        Entry entry = engine.listings.find(place);
        boolean fresh = options.contains(StandardOpenOption.CREATE_NEW);
        if (fresh && entry != null) {
            throw new FileAlreadyExistsException(path.toString());
        }
        if (entry == null && !fresh && !options.contains(StandardOpenOption.CREATE)) {
            throw new NoSuchFileException(path.toString());
        }
        boolean keeps = entry != null && !options.contains(StandardOpenOption.TRUNCATE_EXISTING);
        Channels.Writing writing =
                new Channels.Writing(engine, place, fresh ? Uploads.Existing.FAILS : Uploads.Existing.IS_REPLACED, entry, keeps);
        return options.contains(StandardOpenOption.APPEND) ? writing.position(writing.size()) : writing;
    }

    @Override
    public DirectoryStream<Path> newDirectoryStream(Path directory, DirectoryStream.Filter<? super Path> filter) throws IOException {
        List<Path> found = new ArrayList<>();
        for (Entry entry : children(directory)) {
            Path child = ((EdtPath) directory).child(entry.path);
            if (filter.accept(child)) {
                found.add(child);
            }
        }
        return new DirectoryStream<Path>() {
            @Override
            public Iterator<Path> iterator() {
                return found.iterator();
            }

            @Override
            public void close() {
                // All of it is here already.
            }
        };
    }

    private static List<Entry> children(Path directory) throws IOException {
        Engine engine = Engine.get();
        Entry entry = engine.listings.find(place(directory));
        if (entry == null) {
            throw new NoSuchFileException(directory.toString());
        }
        if (!entry.isDirectory()) {
            throw new NotDirectoryException(directory.toString());
        }
        try {
            return engine.listings.children(place(directory));
        } catch (EdtException error) {
            throw error.about(directory);
        }
    }

    @Override
    public void createDirectory(Path directory, FileAttribute<?>... attributes) throws IOException {
        Place place = place(directory);
        if (Engine.get().listings.find(place) != null) {
            throw new FileAlreadyExistsException(directory.toString());
        }
        change("directory", directory);
    }

    @Override
    public void delete(Path path) throws IOException {
        boolean prefix = Engine.get().listings.takeListed(place(path));
        try {
            change("remove", path);
        } catch (FileAlreadyExistsException error) {
            throw ((EdtException) error.getCause()).aboutRemoving(path);
        } catch (NoSuchFileException error) {
            // A directory of an object store is gone with the last object below it.
            if (!prefix) {
                throw error;
            }
        }
    }

    @Override
    public void copy(Path source, Path target, CopyOption... options) throws IOException {
        List<CopyOption> chosen = Arrays.asList(options);
        boolean over = chosen.contains(StandardCopyOption.REPLACE_EXISTING);
        if (find(source).isDirectory()) {
            createDirectory(target);
        } else if (source.getFileSystem() == target.getFileSystem()) {
            change(over ? "copy-over" : "copy", source, target);
        } else {
            between(source, target, over);
        }
    }

    /** Copies a file from one endpoint to another. */
    private static void between(Path source, Path target, boolean over) throws IOException {
        Engine engine = Engine.get();
        Move move = new Move(engine, Tally.Direction.PUBLISHED, place(source).endpoint(), place(target).endpoint());
        if (!over) {
            move.with("never");
        }
        for (EdtException error : move.run(List.of(), Thread.currentThread()::isInterrupted).values()) {
            throw error.about(target);
        }
        engine.listings.forget(place(target));
    }

    @Override
    public void move(Path source, Path target, CopyOption... options) throws IOException {
        boolean over = Arrays.asList(options).contains(StandardCopyOption.REPLACE_EXISTING);
        if (source.getFileSystem() == target.getFileSystem() && place(source).isServer()) {
            change(over ? "rename-over" : "rename", source, target);
            return;
        }
        if (find(source).isDirectory()) {
            throw new IOException("could not move " + source + ": only edt servers rename directories; copy it and remove it then");
        }
        copy(source, target, options);
        delete(source);
    }

    @Override
    public boolean isSameFile(Path one, Path other) throws IOException {
        if (one.toAbsolutePath().normalize().equals(other.toAbsolutePath().normalize())) {
            return true;
        }
        if (one.getFileSystem() != other.getFileSystem() || !isLink(one) && !isLink(other)) {
            return false;
        }
        // A walk asks whether a directory behind a link is one that it comes from.
        Engine engine = Engine.get();
        return engine.listings.real(place(one)).equals(engine.listings.real(place(other)));
    }

    private static boolean isLink(Path path) throws IOException {
        return find(path, LinkOption.NOFOLLOW_LINKS).isSymbolicLink();
    }

    @Override
    public boolean isHidden(Path path) {
        return path.getFileName() != null && path.getFileName().toString().startsWith(".");
    }

    @Override
    public FileStore getFileStore(Path path) {
        throw new UnsupportedOperationException("an endpoint of edt does not tell of its storage");
    }

    @Override
    public void checkAccess(Path path, AccessMode... modes) throws IOException {
        find(path);
    }

    @Override
    public <V extends FileAttributeView> V getFileAttributeView(Path path, Class<V> type, LinkOption... options) {
        return type == BasicFileAttributeView.class ? type.cast(new View(path, options)) : null;
    }

    @Override
    public <A extends BasicFileAttributes> A readAttributes(Path path, Class<A> type, LinkOption... options) throws IOException {
        if (type != BasicFileAttributes.class) {
            throw new UnsupportedOperationException("edt tells size, kind and time only, not " + type.getSimpleName());
        }
        return type.cast(find(path, options));
    }

    @Override
    public Map<String, Object> readAttributes(Path path, String names, LinkOption... options) throws IOException {
        Entry entry = find(path, options);
        Map<String, Object> all = Map.of(
                "size", entry.size(), "lastModifiedTime", entry.lastModifiedTime(), "isDirectory", entry.isDirectory(),
                "isRegularFile", entry.isRegularFile(), "isSymbolicLink", entry.isSymbolicLink(), "isOther", entry.isOther());
        List<String> wanted = Arrays.asList(names.substring(names.indexOf(':') + 1).split(","));
        Map<String, Object> found = new java.util.HashMap<>(all);
        if (!wanted.contains("*")) {
            found.keySet().retainAll(wanted);
        }
        return found;
    }

    @Override
    public void setAttribute(Path path, String name, Object value, LinkOption... options) {
        throw new UnsupportedOperationException("edt sets no attributes of " + path);
    }

    @Override
    public boolean canUpload(Path source, Path target) {
        return source.getFileSystem() == FileSystems.getDefault() && target instanceof EdtPath;
    }

    @Override
    public boolean canDownload(Path source, Path target) {
        return source instanceof EdtPath && target.getFileSystem() == FileSystems.getDefault();
    }

    @Override
    public void download(Path source, Path target, CopyOption... options) throws IOException {
        boolean over = Arrays.asList(options).contains(StandardCopyOption.REPLACE_EXISTING);
        if (!over && Files.exists(target, LinkOption.NOFOLLOW_LINKS)) {
            throw new FileAlreadyExistsException(target.toString());
        }
        Engine.get().downloads.fetch(place(source), target.toAbsolutePath());
    }

    @Override
    public void upload(Path source, Path target, CopyOption... options) throws IOException {
        List<CopyOption> chosen = Arrays.asList(options);
        boolean over = chosen.contains(StandardCopyOption.REPLACE_EXISTING);
        boolean follows = !chosen.contains(LinkOption.NOFOLLOW_LINKS);
        Engine engine = Engine.get();
        // A directory that stands there would swallow what is brought to it.
        if (!over && Files.isDirectory(source) && engine.listings.find(place(target)) != null) {
            throw new FileAlreadyExistsException(target.toString());
        }
        engine.uploads.put(source, place(target), over ? Uploads.Existing.IS_REPLACED : Uploads.Existing.FAILS, follows);
    }

    private static Place place(Path path) {
        return ((EdtPath) path.toAbsolutePath()).place();
    }

    private static Entry find(Path path, LinkOption... options) throws IOException {
        Entry entry;
        try {
            entry = Engine.get().listings.find(place(path));
        } catch (EdtException error) {
            throw error.about(path);
        }
        if (entry == null) {
            throw new NoSuchFileException(path.toString());
        }
        if (Arrays.asList(options).contains(LinkOption.NOFOLLOW_LINKS)) {
            return entry.unfollowed();
        }
        if (entry.isSymbolicLink()) {
            throw new NoSuchFileException(path.toString(), null, "a link that leads nowhere, or where nobody may look");
        }
        return entry;
    }

    /** Changes a path, or brings it to the name of another one. */
    private static void change(String operation, Path... paths) throws IOException {
        Engine engine = Engine.get();
        Fields fields = new Fields(operation, place(paths[0]).root());
        for (Path path : paths) {
            fields.add(place(path).below());
        }
        try {
            engine.change(operation, fields.bytes());
        } catch (EdtException error) {
            throw error.about(paths[paths.length - 1]);
        } finally {
            for (Path path : paths) {
                engine.listings.forget(place(path));
            }
        }
    }

    private static final class View implements BasicFileAttributeView {
        private final Path path;
        private final LinkOption[] options;

        View(Path path, LinkOption... options) {
            this.path = path;
            this.options = options;
        }

        @Override
        public String name() {
            return "basic";
        }

        @Override
        public BasicFileAttributes readAttributes() throws IOException {
            return find(path, options);
        }

        /** What is published by moving gets the time at which it arrived. */
        @Override
        public void setTimes(FileTime modified, FileTime accessed, FileTime created) {
            // Nextflow asks for this behind every file that it moves, and expects no error.
        }
    }
}
