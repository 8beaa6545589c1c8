// A directory that one batch has for itself, in which an interrupted one is gone on with.
package io.edt.nf;

import java.io.IOException;
import java.io.InterruptedIOException;
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
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Stream;

/** Nextflow removes what it could not stage, so nothing that is to be resumed can lie there. */
final class Lane implements AutoCloseable {
    /** Nobody comes back for what is older. */
    private static final long FORGOTTEN_MILLIS = 14L * 24 * 3600 * 1000;

    /** Where a transfer to a lane keeps what has not arrived whole. */
    private static final String PARTIAL = ".edt";

    /** The lanes that batches of this process have, and the names that these move; its monitor tells of each that is freed. */
    private static final Map<Path, Set<String>> HELD = new HashMap<>();

    /** Where the files of the batch lie, under their names below the root. */
    final Path data;
    /** Whether an earlier batch was to move some of the same names. */
    final boolean goesOn;
    private final Path folder;
    /** Under which it is held. */
    private final Path key;
    private final FileChannel channel;
    private final String root;
    private final Set<String> names;
    /** What an earlier batch was to move, and this one is not. */
    private final List<String> others = new ArrayList<>();

    private Lane(Path folder, Path key, FileChannel channel, String root, Set<String> names) throws IOException {
        this.folder = folder;
        this.key = key;
        this.channel = channel;
        this.root = root;
        this.names = names;
        this.data = folder.resolve("data");
        this.goesOn = overlap(folder, root, names) > 0;
        if (goesOn) {
            others.addAll(noted(folder, root));
            others.removeAll(names);
        } else {
            clear();
        }
        Files.createDirectories(data);
        note(names);
    }

    private void note(Collection<String> more) throws IOException {
        List<String> lines = new ArrayList<>(others);
        lines.addAll(more);
        lines.add(0, root);
        Path part = folder.resolve("wanted.part");
        Files.write(part, new Fields(lines.toArray(new String[0])).bytes());
        Files.move(part, folder.resolve("wanted"), StandardCopyOption.REPLACE_EXISTING);
    }

    /** Parts names by the lanes in which earlier batches have left them; those of which nothing is there are one part. */
    static List<Set<String>> parts(Path home, String root, Collection<String> names) throws IOException {
        Files.createDirectories(home);
        Map<String, Path> left = new HashMap<>();
        for (Path lane : lanes(home)) {
            Path key = lane.toRealPath();
            Set<String> held = held(key);
            for (String name : noted(lane, root)) {
                if (!held.contains(name) && (!left.containsKey(name) || Files.exists(lane.resolve("data").resolve(name)))) {
                    left.put(name, key);
                }
            }
        }
        Map<Path, Set<String>> parts = new LinkedHashMap<>();
        for (String name : names) {
            parts.computeIfAbsent(left.getOrDefault(name, home), lane -> new LinkedHashSet<>()).add(name);
        }
        // What has to wait for another batch holds up nothing else.
        List<Path> order = new ArrayList<>(parts.keySet());
        order.sort(Comparator.comparing(lane -> !held(lane).isEmpty()));
        List<Set<String>> ordered = new ArrayList<>();
        order.forEach(lane -> ordered.add(parts.get(lane)));
        return ordered;
    }

    /** The same as `take`, but waits for a batch of this process that has the lane in which an earlier one has left them. */
    static Lane takeUp(Path home, String root, Collection<String> names) throws IOException {
        Set<String> wanted = new HashSet<>(names);
        synchronized (HELD) {
            while (isLeftInHeld(home, root, wanted)) {
                try {
                    HELD.wait();
                } catch (InterruptedException error) {
                    Thread.currentThread().interrupt();
                    throw new InterruptedIOException("interrupted while waiting for what an earlier attempt has left");
                }
            }
        }
        return take(home, root, names);
    }

    private static boolean isLeftInHeld(Path home, String root, Set<String> wanted) throws IOException {
        for (Path lane : lanes(home)) {
            Set<String> held = held(lane.toRealPath());
            if (!held.isEmpty() && noted(lane, root).stream().anyMatch(name -> wanted.contains(name) && !held.contains(name))) {
                return true;
            }
        }
        return false;
    }

    /** What the batch of this process moves that has a lane. */
    private static Set<String> held(Path key) {
        synchronized (HELD) {
            return HELD.getOrDefault(key, Set.of());
        }
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
        synchronized (HELD) {
            if (HELD.putIfAbsent(key, wanted) != null) {
                return null;
            }
        }
        FileChannel channel = null;
        Lane taken = null;
        try {
            channel = FileChannel.open(lane.resolve("lock"), StandardOpenOption.CREATE, StandardOpenOption.WRITE);
            if (isLocked(channel, lane) && overlap(lane, root, wanted) >= 0) {
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

    /**
     * Locks a lane; false if another process has it. Some file systems have no locks: NFS without its lock service, Lustre without
     * `-o flock`.
     */
    static boolean isLocked(FileChannel channel, Path lane) throws IOException {
        try {
            return channel.tryLock() != null;
        } catch (IOException error) {
            throw new IOException("could not lock `" + lane + "`: " + error.getMessage()
                    + " (hint: set `edt.partialDir` to a directory on a file system that has locks, such as a local disk)", error);
        }
    }

    private static void free(FileChannel channel, Path key) throws IOException {
        try {
            if (channel != null) {
                channel.close();
            }
        } finally {
            synchronized (HELD) {
                HELD.remove(key);
                HELD.notifyAll();
            }
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
            List<String> fields = fields(lane);
            if (fields.isEmpty()) {
                return 0;
            }
            int common = (int) fields.stream().skip(1).filter(wanted::contains).count();
            return fields.get(0).equals(root) && common > 0 ? common : -1;
        } catch (IOException error) {
            return -1;
        }
    }

    /** The names below a root that are under way in a lane. */
    private static List<String> noted(Path lane, String root) throws IOException {
        List<String> fields = fields(lane);
        return fields.isEmpty() || !fields.get(0).equals(root) ? List.of() : fields.subList(1, fields.size());
    }

    /** The root and the names that are noted; nothing if none are, or they are forgotten. */
    private static List<String> fields(Path lane) throws IOException {
        try {
            Path noted = lane.resolve("wanted");
            boolean forgotten = System.currentTimeMillis() - Files.getLastModifiedTime(noted).toMillis() > FORGOTTEN_MILLIS;
            return forgotten ? List.of() : List.of(new String(Files.readAllBytes(noted), StandardCharsets.UTF_8).split("\0"));
        } catch (NoSuchFileException error) {
            return List.of();
        }
    }

    /** Removes what this batch had here; what is left of an earlier one stays for whoever asks for it, as far as it had arrived. */
    void release() throws IOException {
        boolean partial = Files.exists(folder.resolve(PARTIAL));
        others.removeIf(name -> !partial && !Files.exists(data.resolve(name)));
        if (others.isEmpty()) {
            clear();
            return;
        }
        for (String name : names) {
            Tree.remove(data.resolve(name));
        }
        note(List.of());
    }

    /** Removes all that lies here. */
    void clear() throws IOException {
        Files.deleteIfExists(folder.resolve("wanted"));
        Tree.remove(data);
        Tree.remove(folder.resolve(PARTIAL));
    }

    /** Frees the lane. */
    @Override
    public void close() throws IOException {
        free(channel, key);
    }
}
