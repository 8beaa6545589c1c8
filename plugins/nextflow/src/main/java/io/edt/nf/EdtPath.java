// A path at an endpoint: absolute ones show as URLs, relative ones as bare names.
package io.edt.nf;

import java.net.URI;
import java.nio.file.FileSystem;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.ProviderMismatchException;
import java.nio.file.WatchEvent;
import java.nio.file.WatchKey;
import java.nio.file.WatchService;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;

/** Names below a root. */
final class EdtPath implements Path {
    private final EdtFileSystem system;
    /** Names joined by slashes, decoded. */
    private final String names;
    private final boolean absolute;
    /** The whole address of a place that is alone, or nothing. */
    private final String address;

    EdtPath(EdtFileSystem system, String names, boolean absolute, String address) {
        this.system = system;
        this.names = names;
        this.absolute = absolute;
        this.address = address;
    }

    /** Where it is; the path must be absolute. */
    Place place() {
        return address.isEmpty()
                ? system.root.at(Place.names(names, names))
                : Place.parse(address, java.util.Set.of(system.root.scheme));
    }

    /** The names, with a slash in front of an absolute path. */
    String named() {
        return absolute ? "/" + names : names;
    }

    /** What a listing of this directory calls so, whatever the name looks like. */
    EdtPath child(String name) {
        return made(names.isEmpty() ? name : names + "/" + name, absolute);
    }

    private EdtPath made(String names, boolean absolute) {
        return new EdtPath(system, names, absolute, "");
    }

    private List<String> parts() {
        return names.isEmpty() ? (absolute ? List.of() : List.of("")) : Arrays.asList(names.split("/"));
    }

    private static EdtPath own(Path path) {
        if (path instanceof EdtPath) {
            return (EdtPath) path;
        }
        throw new ProviderMismatchException("not a path of edt: " + path);
    }

    @Override
    public FileSystem getFileSystem() {
        return system;
    }

    @Override
    public boolean isAbsolute() {
        return absolute;
    }

    @Override
    public Path getRoot() {
        return absolute ? made("", true) : null;
    }

    @Override
    public Path getFileName() {
        return names.isEmpty() ? null : made(names.substring(names.lastIndexOf('/') + 1), false);
    }

    @Override
    public Path getParent() {
        int slash = names.lastIndexOf('/');
        if (slash < 0) {
            return absolute && !names.isEmpty() ? made("", true) : null;
        }
        return made(names.substring(0, slash), absolute);
    }

    @Override
    public int getNameCount() {
        return parts().size();
    }

    @Override
    public Path getName(int index) {
        return made(parts().get(index), false);
    }

    @Override
    public Path subpath(int begin, int end) {
        return made(String.join("/", parts().subList(begin, end)), false);
    }

    @Override
    public boolean startsWith(Path other) {
        if (!(other instanceof EdtPath) || !own(other).isOfRoot(this)) {
            return false;
        }
        List<String> begin = own(other).parts();
        return begin.size() <= parts().size() && parts().subList(0, begin.size()).equals(begin);
    }

    @Override
    public boolean endsWith(Path other) {
        if (!(other instanceof EdtPath) || other.isAbsolute()) {
            return equals(other);
        }
        List<String> end = own(other).parts();
        int size = parts().size();
        return end.size() <= size && parts().subList(size - end.size(), size).equals(end);
    }

    @Override
    public Path normalize() {
        List<String> kept = new ArrayList<>();
        for (String name : names.split("/")) {
            boolean drops = name.equals("..") && !kept.isEmpty() && !kept.get(kept.size() - 1).equals("..");
            if (drops) {
                kept.remove(kept.size() - 1);
            } else if (!name.isEmpty() && !name.equals(".") && !(name.equals("..") && absolute)) {
                kept.add(name);
            }
        }
        return new EdtPath(system, String.join("/", kept), absolute, address);
    }

    @Override
    public Path resolve(Path other) {
        if (!(other instanceof EdtPath) && !other.isAbsolute()) {
            // Nextflow asks an output directory for names in a task's directory.
            return resolve(system.named(other.toString()));
        }
        EdtPath path = own(other);
        if (path.absolute || names.isEmpty() && !absolute) {
            return path;
        }
        return path.names.isEmpty() ? this : made(names.isEmpty() ? path.names : names + "/" + path.names, absolute);
    }

    @Override
    public Path resolve(String other) {
        return resolve(other.startsWith(system.root.shownRoot() + "/") ? system.getPath(other) : system.named(other));
    }

    @Override
    public Path relativize(Path other) {
        EdtPath path = own(other);
        if (!path.isOfRoot(this)) {
            throw new IllegalArgumentException("no path leads from " + this + " to " + other);
        }
        List<String> from = names.isEmpty() ? List.of() : parts();
        List<String> to = path.names.isEmpty() ? List.of() : path.parts();
        int common = 0;
        while (common < from.size() && common < to.size() && from.get(common).equals(to.get(common))) {
            common++;
        }
        List<String> steps = new ArrayList<>();
        for (int up = common; up < from.size(); up++) {
            steps.add("..");
        }
        steps.addAll(to.subList(common, to.size()));
        return made(String.join("/", steps), false);
    }

    private boolean isOfRoot(EdtPath other) {
        return absolute == other.absolute && (!absolute || system == other.system);
    }

    @Override
    public URI toUri() {
        return URI.create(((EdtPath) toAbsolutePath()).place().uri());
    }

    @Override
    public Path toAbsolutePath() {
        return absolute ? this : made(names, true);
    }

    @Override
    public Path toRealPath(LinkOption... options) {
        return toAbsolutePath().normalize();
    }

    @Override
    public WatchKey register(WatchService watcher, WatchEvent.Kind<?>[] events, WatchEvent.Modifier... modifiers) {
        throw new UnsupportedOperationException("an endpoint of edt cannot be watched");
    }

    @Override
    public int compareTo(Path other) {
        return toString().compareTo(own(other).toString());
    }

    @Override
    public boolean equals(Object other) {
        if (!(other instanceof EdtPath)) {
            return false;
        }
        EdtPath path = (EdtPath) other;
        return system == path.system && absolute == path.absolute && names.equals(path.names)
                && address.equals(path.address);
    }

    @Override
    public int hashCode() {
        return Objects.hash(system, names, absolute, address);
    }

    @Override
    public String toString() {
        return absolute ? place().url() : names;
    }
}
