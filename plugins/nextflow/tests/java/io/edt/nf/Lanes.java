// Takes lanes for the test, tells where they are, and holds the first one until its input ends.
package io.edt.nf;

import java.nio.file.Path;
import java.nio.file.Paths;
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
    }
}
