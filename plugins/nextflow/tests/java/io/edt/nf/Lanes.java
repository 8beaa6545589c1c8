// Takes lanes for the test, tells where they are, and holds the first one until its input ends.
package io.edt.nf;

import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.nio.file.StandardOpenOption;
import java.util.List;

/** `Lanes HOME` */
public final class Lanes {
    private Lanes() {}

    /** Run by the test. */
    public static void main(String[] words) throws Exception {
        Path home = Paths.get(words[0]);
        Lane first = Lane.take(home, "root", List.of("a"));
        Lane second = Lane.take(home, "root", List.of("a"));
        Path beside = second.data.getParent();
        second.close();
        Lane third = Lane.take(home, "root", List.of("a"));
        System.out.println(first.data.getParent() + " " + beside + " " + third.data.getParent());
        System.in.read();
        third.close();
        first.close();
        left(home.resolveSibling("left"));
        unlockable(home.resolveSibling("unlockable"));
    }

    /** What is said where a file cannot be locked: here, because it is closed. */
    private static void unlockable(Path file) throws Exception {
        FileChannel channel = FileChannel.open(file, StandardOpenOption.CREATE, StandardOpenOption.WRITE);
        channel.close();
        try {
            Lane.isLocked(channel, file);
        } catch (IOException error) {
            System.out.println("said " + error.getMessage());
        }
    }

    /** What a batch that was killed has left, and others take up in other batches. */
    private static void left(Path home) throws Exception {
        try (Lane killed = Lane.take(home, "root", List.of("a", "b", "c"))) {
            for (String name : List.of("a", "b")) {
                Files.writeString(killed.data.resolve(name), name);
            }
        }
        System.out.println("parts " + Lane.parts(home, "root", List.of("a", "z")));
        for (String name : List.of("a", "b")) {
            try (Lane lane = Lane.takeUp(home, "root", List.of(name))) {
                System.out.println("left " + lane.goesOn + " " + Files.exists(lane.data.resolve(name)));
                lane.release();
            }
        }
        try (Lane lane = Lane.takeUp(home, "root", List.of("c"))) {
            System.out.println("left " + lane.goesOn + " " + Files.exists(lane.data.resolve("c")));
        }
    }
}
