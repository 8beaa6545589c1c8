// Panics in the native library for the test, and tells what becomes of that.
package io.edt.nf;

import java.nio.file.Path;
import java.nio.file.Paths;

/** `Panics FILE`: panics twice, and asks then for the kind of a file. */
public final class Panics {
    private Panics() {}

    /** There in libraries that are built with debug assertions. */
    private static native void panic() throws EdtException;

    /** Run by the test. */
    public static void main(String[] words) throws EdtException {
        Native.load();
        long engine = Native.open(new byte[0]);
        for (int attempt = 0; attempt < 2; attempt++) {
            try {
                panic();
                System.out.println("nothing");
            } catch (EdtException error) {
                System.out.println(error.code() + ": " + error.getMessage() + ": " + error.isTransient());
            } catch (UnsatisfiedLinkError error) {
                System.out.println("no panic");
            }
        }
        Path file = Paths.get(words[0]);
        byte[] place = new Fields(file.getParent() + "/", file.getFileName().toString()).bytes();
        System.out.println(Fields.of(Native.stat(engine, place)).next());
        Native.close(engine);
    }
}
