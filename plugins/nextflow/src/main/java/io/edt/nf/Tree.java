// Local files: removing trees, and bringing what has arrived to its place, whole or not at all.
package io.edt.nf;

import java.io.IOException;
import java.nio.file.FileVisitResult;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.SimpleFileVisitor;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.BasicFileAttributes;
import java.util.concurrent.atomic.AtomicLong;

/** Operations that Java lacks. */
final class Tree {
    private static final AtomicLong COUNT = new AtomicLong();

    private Tree() {}

    /** As much of a name as leaves room for an end: of the 255 bytes that a name may have, it takes 180 at most. */
    static String begin(String name) {
        int end = Math.min(name.length(), 60);
        boolean parts = end < name.length() && Character.isHighSurrogate(name.charAt(end - 1));
        return name.substring(0, parts ? end - 1 : end);
    }

    /** Removes a file or a directory with all below it, if it is there; links are not followed. */
    static void remove(Path path) throws IOException {
        if (!Files.exists(path, LinkOption.NOFOLLOW_LINKS)) {
            return;
        }
        Files.walkFileTree(path, new SimpleFileVisitor<Path>() {
            @Override
            public FileVisitResult visitFile(Path file, BasicFileAttributes attributes) throws IOException {
                Files.deleteIfExists(file);
                return FileVisitResult.CONTINUE;
            }

            @Override
            public FileVisitResult postVisitDirectory(Path directory, IOException error) throws IOException {
                Files.deleteIfExists(directory);
                return FileVisitResult.CONTINUE;
            }
        });
    }

    /** Renames; from another file system it copies beside the target first. */
    static void move(Path arrived, Path target) throws IOException {
        makeRoom(arrived, target);
        try {
            Files.move(arrived, target, StandardCopyOption.ATOMIC_MOVE);
        } catch (NoSuchFileException error) {
            throw error;
        } catch (IOException error) {
            place(arrived, target, false);
            remove(arrived);
        }
    }

    /** Gives the target the same content: by hard links where the file system allows it, and `linked` asks for it. */
    static void place(Path arrived, Path target, boolean linked) throws IOException {
        makeRoom(arrived, target);
        String begin = begin(target.getFileName().toString());
        Path part = target.resolveSibling("." + begin + ".edt-" + ProcessHandle.current().pid() + "-" + COUNT.incrementAndGet());
        try {
            copy(arrived, part, linked);
            Files.move(part, target, StandardCopyOption.ATOMIC_MOVE);
        } finally {
            remove(part);
        }
    }

    private static void makeRoom(Path arrived, Path target) throws IOException {
        Files.createDirectories(target.getParent());
        boolean inTheWay = Files.isDirectory(target, LinkOption.NOFOLLOW_LINKS) || Files.isDirectory(arrived, LinkOption.NOFOLLOW_LINKS);
        if (inTheWay) {
            remove(target);
        }
    }

    private static void copy(Path from, Path to, boolean linked) throws IOException {
        Files.walkFileTree(from, new SimpleFileVisitor<Path>() {
            @Override
            public FileVisitResult preVisitDirectory(Path directory, BasicFileAttributes attributes) throws IOException {
                Files.createDirectories(to.resolve(from.relativize(directory).toString()));
                return FileVisitResult.CONTINUE;
            }

            @Override
            public FileVisitResult visitFile(Path file, BasicFileAttributes attributes) throws IOException {
                copyFile(file, file.equals(from) ? to : to.resolve(from.relativize(file).toString()), linked);
                return FileVisitResult.CONTINUE;
            }
        });
    }

    private static void copyFile(Path from, Path to, boolean linked) throws IOException {
        if (linked) {
            try {
                Files.createLink(to, from);
                return;
            } catch (NoSuchFileException error) {
                throw error;
            } catch (IOException | UnsupportedOperationException error) {
                // Another file system, or one without links.
            }
        }
        Files.copy(from, to, StandardCopyOption.COPY_ATTRIBUTES, LinkOption.NOFOLLOW_LINKS);
    }
}
