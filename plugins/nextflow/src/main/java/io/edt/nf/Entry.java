// What is known of a file or directory of an endpoint.
package io.edt.nf;

import java.nio.file.attribute.BasicFileAttributes;
import java.nio.file.attribute.FileTime;
import java.nio.file.attribute.PosixFilePermission;
import java.util.EnumSet;
import java.util.Set;
import java.util.concurrent.TimeUnit;

/** An entry as a listing tells it, links followed. */
final class Entry implements BasicFileAttributes {
    private final char kind;
    /** Whether the name is that of a link to it. */
    private final boolean linked;
    private final long size;
    private final FileTime modified;
    /** Unix permission bits; empty if the endpoint has none. */
    private final String mode;
    /** Its path below what was listed. */
    final String path;

    Entry(Fields fields) {
        char told = fields.next().charAt(0);
        kind = Character.toLowerCase(told);
        linked = Character.isUpperCase(told);
        size = fields.number();
        String nanoseconds = fields.next();
        modified = nanoseconds.isEmpty() ? FileTime.fromMillis(0) : FileTime.from(Long.parseLong(nanoseconds), TimeUnit.NANOSECONDS);
        mode = fields.next();
        path = fields.next();
    }

    private Entry(char kind, FileTime modified, String path) {
        this.kind = kind;
        this.linked = false;
        this.size = 0;
        this.modified = modified;
        this.mode = "";
        this.path = path;
    }

    /** The root of an endpoint, which always is a directory. */
    static Entry root() {
        return new Entry('d', FileTime.fromMillis(0), "");
    }

    /** The link itself, if it was followed. */
    Entry unfollowed() {
        return linked ? new Entry('l', modified, path) : this;
    }

    /** Who may do what with it; `null` if the endpoint does not tell. */
    Set<PosixFilePermission> permissions() {
        if (mode.isEmpty()) {
            return null;
        }
        int bits = Integer.parseInt(mode);
        Set<PosixFilePermission> permissions = EnumSet.noneOf(PosixFilePermission.class);
        for (PosixFilePermission permission : PosixFilePermission.values()) {
            // They are declared in the order of the bits, the highest first.
            if ((bits >> (8 - permission.ordinal()) & 1) == 1) {
                permissions.add(permission);
            }
        }
        return permissions;
    }

    /** Whether it still is what it was. */
    boolean isSame(Entry other) {
        return other != null && other.kind == kind && other.size == size && other.modified.equals(modified);
    }

    /** Whether a local file is what the entry describes. */
    boolean isSame(BasicFileAttributes local) {
        return local.isRegularFile() && local.size() == size && local.lastModifiedTime().equals(modified);
    }

    @Override
    public FileTime lastModifiedTime() {
        return modified;
    }

    @Override
    public FileTime lastAccessTime() {
        return modified;
    }

    @Override
    public FileTime creationTime() {
        return modified;
    }

    @Override
    public boolean isRegularFile() {
        return kind == 'f';
    }

    @Override
    public boolean isDirectory() {
        return kind == 'd';
    }

    @Override
    public boolean isSymbolicLink() {
        return kind == 'l';
    }

    @Override
    public boolean isOther() {
        return kind == 'o';
    }

    @Override
    public long size() {
        return size;
    }

    @Override
    public Object fileKey() {
        return null;
    }
}
