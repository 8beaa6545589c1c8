// The natives of edt, and where their library is found. Its counterpart is `core/jni/src/natives.rs`.
package io.edt.nf;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.nio.file.StandardCopyOption;
import java.util.Locale;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/** The natives. A block of bytes is a list of {@link Fields}; a place is a root and a path below it. */
final class Native {
    /** How many numbers `await` fills. */
    static final int PROGRESS = 7;

    private static final String OTHERS = "build the plugin where all of them can be built, with `make nextflow`, or set the system property "
            + "`edt.library` to the path of one: NXF_OPTS=-Dedt.library=/path/to/" + System.mapLibraryName("edt_jni");

    private static boolean loaded;

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

    /** Loads the library for this machine, once. Nextflow shows what an exception says, where it hides most errors of a class. */
    static synchronized void load() {
        if (!loaded) {
            load(library());
            loaded = true;
        }
    }

    private static void load(Path library) {
        try {
            loadOrCopy(library);
        } catch (UnsatisfiedLinkError error) {
            throw new IllegalStateException(
                    "could not load the library of edt: " + error.getMessage() + " (hint: this machine is " + platform()
                            + "; a library for another one, or for a newer C library, does not fit; " + OTHERS + ")",
                    error);
        }
    }

    private static void loadOrCopy(Path library) {
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

    private static Path library() {
        String given = System.getProperty("edt.library");
        Path natives = natives();
        if (given == null && natives == null) {
            throw new IllegalStateException("could not find the folder of the plugin nf-edt (hint: " + OTHERS + ")");
        }
        Path library = given == null
                ? natives.resolve(platform()).resolve(System.mapLibraryName("edt_jni"))
                : Paths.get(given).toAbsolutePath();
        if (!Files.isRegularFile(library)) {
            String others = given == null ? "; the plugin was built for " + built(natives) : "";
            throw new IllegalStateException(
                    "could not find the library of edt for this machine, " + platform() + ", at " + library + others + " (hint: " + OTHERS + ")");
        }
        return library;
    }

    /** The machines that the plugin has libraries for. */
    private static String built(Path natives) {
        try (Stream<Path> found = Files.list(natives)) {
            return found.map(path -> path.getFileName().toString()).sorted().collect(Collectors.joining(", "));
        } catch (IOException error) {
            return "none";
        }
    }

    /** Beside the plugin's classes: pf4j leads to them through a link in the launch directory. */
    private static Path natives() {
        try {
            Path classes = Paths.get(Native.class.getProtectionDomain().getCodeSource().getLocation().toURI()).toRealPath();
            return classes.resolveSibling("native");
        } catch (Exception error) {
            return null;
        }
    }

    static String platform() {
        String system = System.getProperty("os.name").toLowerCase(Locale.ROOT);
        String machine = System.getProperty("os.arch").toLowerCase(Locale.ROOT);
        String processor = machine.equals("amd64") ? "x86_64" : machine.equals("arm64") ? "aarch64" : machine;
        String name = system.contains("mac") ? "macos" : system.contains("win") ? "windows" : "linux";
        return name + "-" + processor + (name.equals("linux") && isMusl(Paths.get("/proc/self/maps")) ? "-musl" : "");
    }

    /** Whether the C library of a process is musl, by its table of memory (`/proc/self/maps`): systems may have the loaders of both. */
    static boolean isMusl(Path maps) {
        try (Stream<String> lines = Files.lines(maps, StandardCharsets.ISO_8859_1)) {
            return lines.anyMatch(line -> line.contains("/ld-musl-"));
        } catch (IOException | UncheckedIOException error) {
            return false;
        }
    }
}
