// Tells for the test what the plugin says of this machine, of a process, and of a library that it is to load.
package io.edt.nf;

import java.nio.file.Paths;

/** `Natives MAPS...`: whether the processes with these tables of memory use musl, and what becomes of `edt.library`. */
public final class Natives {
    private Natives() {}

    /** Run by the test. */
    public static void main(String[] words) {
        System.out.println("platform " + Native.platform());
        for (String maps : words) {
            System.out.println("musl " + Native.isMusl(Paths.get(maps)));
        }
        for (int attempt = 0; attempt < 2; attempt++) {
            try {
                Native.load();
                System.out.println("loaded");
            } catch (IllegalStateException error) {
                System.out.println("said " + error.getMessage());
            }
        }
    }
}
