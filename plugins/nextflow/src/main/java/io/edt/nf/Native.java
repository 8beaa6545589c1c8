// The natives of edt, and where their library is found. Its counterpart is `core/jni/src/natives.rs`.
package io.edt.nf;

import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;

/** The natives. A block of bytes is a list of {@link Fields}; a place is a root and a path below it. */
final class Native {
    /** How many numbers `await` fills. */
    static final int PROGRESS = 7;

    private Native() {}

    /** Makes an engine with settings (name, value, ...). */
    static native long open(byte[] settings) throws EdtException;

    static native void close(long engine);

    /** Describes what a place names, links followed: kind (f, d, l, o, or F, D behind a link), size, time in nanoseconds or nothing, path. With `real`: its path without links. */
    static native byte[] stat(long engine, byte[] place) throws EdtException;

    /** The entries below a place, described in the same way, with their paths below it. */
    static native byte[] list(long engine, byte[] place, boolean tree) throws EdtException;

    /** Changes a place: operation, root, path, and for copies and renames the new path. */
    static native void change(long engine, byte[] change) throws EdtException;

    /** Opens a file to read and puts its size into the array. */
    static native long openFile(long engine, byte[] place, long[] size) throws EdtException;

    /** Reads into a direct buffer, from its begin; less than `length` only at the end of the file. */
    static native int read(long file, long position, ByteBuffer into, int length) throws EdtException;

    static native void closeFile(long file);

    /** Starts a transfer: source, destination, then pairs: `file` for each chosen name, `name`, and the flags. */
    static native long start(long engine, byte[] transfer) throws EdtException;

    /**
     * Waits until a transfer ends, at most so long; says whether it has ended. Progress: files done, bytes verified, files planned, bytes
     * planned, whether these are all, bytes per second, streams.
     */
    static native boolean await(long transfer, long millis, long[] progress) throws EdtException;

    static native void cancel(long transfer) throws EdtException;

    /**
     * Waits for the end and forgets the transfer. Files done, files that were there, bytes done, bytes that were there, items failed; then
     * for each that failed its path, kind, what, cause, hint, whether a retry can help.
     */
    static native byte[] finish(long transfer) throws EdtException;

    static {
        load();
    }

    private static void load() {
        List<Path> candidates = candidates();
        for (Path candidate : candidates) {
            if (Files.isRegularFile(candidate)) {
                load(candidate);
                return;
            }
        }
        throw new UnsatisfiedLinkError(
                "the library of edt for this machine (" + platform() + ") is not in the plugin; looked for " + candidates
                        + "; set the system property edt.library to the path of one (NXF_OPTS=-Dedt.library=/path/to/"
                        + System.mapLibraryName("edt_jni") + ")");
    }

    private static void load(Path library) {
        try {
            System.load(library.toString());
        } catch (UnsatisfiedLinkError error) {
            if (!String.valueOf(error.getMessage()).contains("already loaded")) {
                throw error;
            }
            System.load(copied(library).toString());
        }
    }

    /** Another class loader of this JVM holds the library: a copy counts as another one. */
    private static Path copied(Path library) {
        try (InputStream content = Files.newInputStream(library)) {
            Path copy = Files.createTempFile("edt-", library.getFileName().toString());
            copy.toFile().deleteOnExit();
            Files.copy(content, copy, StandardCopyOption.REPLACE_EXISTING);
            return copy;
        } catch (IOException error) {
            throw new IllegalStateException("could not copy " + library, error);
        }
    }

    private static List<Path> candidates() {
        List<Path> found = new ArrayList<>();
        String given = System.getProperty("edt.library");
        if (given != null) {
            found.add(Paths.get(given).toAbsolutePath());
            return found;
        }
        Path classes = classes();
        if (classes != null) {
            found.add(classes.resolveSibling("native").resolve(platform()).resolve(System.mapLibraryName("edt_jni")));
        }
        return found;
    }

    /** The folder of the plugin's classes: pf4j leads to it through a link in the launch directory. */
    private static Path classes() {
        try {
            return Paths.get(Native.class.getProtectionDomain().getCodeSource().getLocation().toURI()).toRealPath();
        } catch (Exception error) {
            return null;
        }
    }

    static String platform() {
        String system = System.getProperty("os.name").toLowerCase(Locale.ROOT);
        String machine = System.getProperty("os.arch").toLowerCase(Locale.ROOT);
        String processor = machine.equals("amd64") ? "x86_64" : machine.equals("arm64") ? "aarch64" : machine;
        String name = system.contains("mac") ? "macos" : system.contains("win") ? "windows" : "linux";
        return name + "-" + processor + (name.equals("linux") && isMusl() ? "-musl" : "");
    }

    private static boolean isMusl() {
        try (var found = Files.newDirectoryStream(Paths.get("/lib"), "ld-musl-*")) {
            return found.iterator().hasNext() && !Files.exists(Paths.get("/lib64/ld-linux-x86-64.so.2"))
                    && !Files.exists(Paths.get("/lib/ld-linux-aarch64.so.1"));
        } catch (IOException error) {
            return false;
        }
    }
}
