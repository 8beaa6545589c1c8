// A directory that one batch has for itself, in which an interrupted one is gone on with.
package io.edt.nf;

import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.channels.OverlappingFileLockException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.Stream;

/** Nextflow removes what it could not stage, so nothing that is to be resumed can lie there. */
final class Lane implements AutoCloseable {
    /** Nobody comes back for what is older. */
    private static final long FORGOTTEN_MILLIS = 14L * 24 * 3600 * 1000;

    /** The lanes that batches of this process have. */
    private static final Set<Path> HELD = ConcurrentHashMap.newKeySet();

    /** Where the files of the batch lie, under their names below the root. */
    final Path data;
    /** Whether an earlier batch was to move some of the same names. */
    final boolean goesOn;
    private final Path folder;
    /** Under which it is held. */
    private final Path key;
    private final FileChannel channel;

    private Lane(Path folder, Path key, FileChannel channel, String root, Collection<String> names) throws IOException {
        this.folder = folder;
        this.key = key;
        this.channel = channel;
        this.data = folder.resolve("data");
        this.goesOn = overlap(folder, root, new HashSet<>(names)) > 0;
        if (!goesOn) {
            clear();
        }
        Files.createDirectories(data);
        List<String> lines = new ArrayList<>(names);
        lines.add(0, root);
        Path part = folder.resolve("wanted.part");
        Files.write(part, new Fields(lines.toArray(new String[0])).bytes());
        Files.move(part, folder.resolve("wanted"), StandardCopyOption.REPLACE_EXISTING);
    }

    /** Takes the free lane in which most of the names were under way already, else an unused one. `root` tells roots apart. */
    static Lane take(Path home, String root, Collection<String> names) throws IOException {
        Files.createDirectories(home);
        Set<String> wanted = new HashSet<>(names);
        while (true) {
            List<Path> lanes = lanes(home);
            for (Path lane : ranked(lanes, root, wanted)) {
                Lane taken = taken(lane, root, wanted);
                if (taken != null) {
                    return taken;
                }
            }
            int number = lanes.size();
            while (Files.exists(home.resolve(String.valueOf(number)))) {
                number++;
            }
            Files.createDirectories(home.resolve(String.valueOf(number)));
        }
    }

    /** Takes a lane; null if it is not free, or somebody has put something else into it meanwhile. */
    private static Lane taken(Path lane, String root, Set<String> wanted) throws IOException {
        Path key = lane.toRealPath();
        // A second channel on the lock file would, when it is closed, drop the lock of the first one: locks belong to the process.
        if (!HELD.add(key)) {
            return null;
        }
        FileChannel channel = null;
        Lane taken = null;
        try {
            channel = FileChannel.open(lane.resolve("lock"), StandardOpenOption.CREATE, StandardOpenOption.WRITE);
            if (channel.tryLock() != null && overlap(lane, root, wanted) >= 0) {
                taken = new Lane(lane, key, channel, root, wanted);
            }
        } catch (OverlappingFileLockException error) {
            // Another copy of the plugin in this process has it.
        } finally {
            if (taken == null) {
                free(channel, key);
            }
        }
        return taken;
    }

    private static void free(FileChannel channel, Path key) throws IOException {
        try {
            if (channel != null) {
                channel.close();
            }
        } finally {
            HELD.remove(key);
        }
    }

    private static List<Path> lanes(Path home) throws IOException {
        List<Path> lanes = new ArrayList<>();
        try (Stream<Path> found = Files.list(home)) {
            found.filter(Files::isDirectory).sorted().forEach(lanes::add);
        }
        return lanes;
    }

    /** Those that may be used: first where most is under way, then those where nothing is. */
    private static List<Path> ranked(List<Path> lanes, String root, Set<String> wanted) {
        List<Path> going = new ArrayList<>();
        List<Path> unused = new ArrayList<>();
        for (Path lane : lanes) {
            int overlap = overlap(lane, root, wanted);
            if (overlap > 0) {
                going.add(lane);
            } else if (overlap == 0) {
                unused.add(lane);
            }
        }
        going.sort(Comparator.comparingInt(lane -> -overlap(lane, root, wanted)));
        going.addAll(unused);
        return going;
    }

    /** How many of the names are under way in a lane; -1 if only others are. */
    private static int overlap(Path lane, String root, Set<String> wanted) {
        try {
            Path noted = lane.resolve("wanted");
            if (System.currentTimeMillis() - Files.getLastModifiedTime(noted).toMillis() > FORGOTTEN_MILLIS) {
                return 0;
            }
            List<String> fields = List.of(new String(Files.readAllBytes(noted), StandardCharsets.UTF_8).split("\0"));
            int common = 0;
            for (String name : fields.subList(1, fields.size())) {
                common += wanted.contains(name) ? 1 : 0;
            }
            return fields.get(0).equals(root) && common > 0 ? common : -1;
        } catch (NoSuchFileException error) {
            return 0;
        } catch (IOException error) {
            return -1;
        }
    }

    /** Removes all that lies here. */
    void clear() throws IOException {
        Files.deleteIfExists(folder.resolve("wanted"));
        Tree.remove(data);
    }

    /** Frees the lane. */
    @Override
    public void close() throws IOException {
        free(channel, key);
    }
}
