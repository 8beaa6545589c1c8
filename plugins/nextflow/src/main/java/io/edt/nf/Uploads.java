// Brings local files to endpoints: what is published at about the same time in one transfer, each file whole or not at all.
package io.edt.nf;

import java.io.IOException;
import java.io.InterruptedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Semaphore;

/** Files of a batch are linked into a {@link Lane} under the names that they get, and moved from there as one tree. */
final class Uploads {
    /** Directories that move at once, each as a transfer of its own. */
    private static final int DIRECTORIES_AT_ONCE = 8;

    private static final int BATCHES_AT_ONCE = 2;

    /** What stands at the target. */
    enum Existing { FAILS, IS_REPLACED }

    private final Engine engine;
    private final Map<String, Batches> roots = new ConcurrentHashMap<>();
    private final Semaphore directories = new Semaphore(DIRECTORIES_AT_ONCE);

    Uploads(Engine engine) {
        this.engine = engine;
    }

    /** Brings a local file or directory to an endpoint. */
    void put(Path source, Place place, Existing existing, boolean follows) throws IOException {
        Path local = source.toAbsolutePath();
        try {
            if (follows && !Files.isDirectory(local)) {
                Request request = new Request(place, local, Files.size(local));
                String key = existing + " " + place.root();
                roots.computeIfAbsent(key, root -> new Batches(BATCHES_AT_ONCE, batch -> carryOut(batch, existing))).add(request);
                request.await();
            } else {
                alone(local, place, existing, follows);
            }
        } catch (EdtException error) {
            throw error.about(place.url());
        } finally {
            engine.listings.forget(place);
        }
    }

    private void alone(Path source, Place place, Existing existing, boolean follows) throws IOException {
        boolean directory = follows ? Files.isDirectory(source) : Files.isDirectory(source, LinkOption.NOFOLLOW_LINKS);
        directories.acquireUninterruptibly();
        try {
            if (directory && place.isServer() && !place.path.isEmpty() && engine.listings.fresh(place) == null) {
                whole(source, place, follows);
            } else {
                move(source, place, directory, follows, existing == Existing.FAILS ? "never" : null);
            }
        } finally {
            directories.release();
        }
    }

    /** Brings a directory to a name beside its own, and gives it its own when it is complete. */
    private void whole(Path source, Place place, boolean follows) throws IOException {
        // The next attempt finds what an interrupted one has brought.
        UUID id = UUID.nameUUIDFromBytes((source + "\0" + place.url()).getBytes(StandardCharsets.UTF_8));
        String above = Listings.parent(place.path);
        Place part = place.at((above.isEmpty() ? "" : above + "/") + "." + Tree.begin(Listings.name(place.path)) + ".edt-" + id);
        try {
            engine.change("directory", new Fields("directory", part.root(), part.below()).bytes());
            move(source, part, true, follows, "mirror");
            rename(part, place);
        } catch (EdtException error) {
            if (!error.isTransient()) {
                drop(part, error);
            }
            throw error;
        } finally {
            engine.listings.forget(part);
        }
    }

    /** Gives a directory its name. Where the answer is lost, it was done if there is nothing under the other name any more. */
    private void rename(Place part, Place place) throws IOException {
        for (int attempt = 0;; attempt++) {
            try {
                engine.change("rename", new Fields("rename", place.root(), part.below(), place.below()).bytes());
                return;
            } catch (EdtException error) {
                if (!error.isTransient() || attempt >= engine.settings.retries || !engine.sleep(attempt)) {
                    throw error;
                }
                if (engine.listings.fresh(part) == null) {
                    return;
                }
            }
        }
    }

    private void drop(Place part, EdtException error) {
        try {
            engine.change("remove-tree", new Fields("remove-tree", part.root(), part.below()).bytes());
        } catch (EdtException left) {
            error.addSuppressed(left);
        }
    }

    private void move(Path source, Place place, boolean directory, boolean follows, String rule) throws IOException {
        String end = directory ? "/" : "";
        Move move = new Move(engine, Tally.Direction.PUBLISHED, source + end, place.endpoint() + end);
        if (rule != null) {
            move.with(rule);
        }
        if (follows) {
            move.with("follow");
        }
        Thread caller = Thread.currentThread();
        for (EdtException error : move.run(List.of(), caller::isInterrupted).values()) {
            throw error;
        }
    }

    private void carryOut(List<Request> batch, Existing existing) throws IOException {
        Map<String, Request> named = new LinkedHashMap<>();
        List<Request> later = new ArrayList<>();
        Set<String> directories = new TreeSet<>();
        for (Request request : batch) {
            if (fits(request.place.path, named, directories)) {
                named.put(request.place.path, request);
            } else {
                later.add(request);
            }
        }
        if (!named.isEmpty()) {
            move(named, existing);
        }
        if (!later.isEmpty()) {
            carryOut(later, existing);
        }
    }

    /** Whether a name can lie beside the others: it is not there twice, and none is a directory for another. */
    private static boolean fits(String name, Map<String, Request> named, Set<String> directories) {
        if (named.containsKey(name) || directories.contains(name)) {
            return false;
        }
        for (String above = Listings.parent(name); !above.isEmpty(); above = Listings.parent(above)) {
            if (named.containsKey(above)) {
                return false;
            }
        }
        for (String above = Listings.parent(name); !above.isEmpty(); above = Listings.parent(above)) {
            directories.add(above);
        }
        return true;
    }

    private void move(Map<String, Request> named, Existing existing) throws IOException {
        Place first = named.values().iterator().next().place;
        try (Lane lane = Lane.take(engine.home().resolve("publishing"), existing + " " + first.root(), named.keySet())) {
            for (Map.Entry<String, Request> entry : named.entrySet()) {
                link(lane.data.resolve(entry.getKey()), entry.getValue().local);
            }
            Move move = new Move(engine, Tally.Direction.PUBLISHED, lane.data + "/", first.root())
                    .with("name", "lane").with("follow");
            if (existing == Existing.FAILS) {
                move.with("never");
            }
            Map<String, EdtException> failed =
                    move.run(named.keySet(), () -> named.values().stream().allMatch(request -> request.cancelled));
            named.values().forEach(request -> engine.listings.forget(request.place));
            named.forEach((name, request) -> request.end(failed.get(name)));
            if (failed.values().stream().noneMatch(EdtException::isTransient)) {
                lane.clear();
            }
        } catch (InterruptedIOException error) {
            named.values().forEach(request -> request.end(error));
        }
    }

    private static void link(Path name, Path source) throws IOException {
        Files.createDirectories(name.getParent());
        Files.deleteIfExists(name);
        Files.createSymbolicLink(name, source);
    }
}
