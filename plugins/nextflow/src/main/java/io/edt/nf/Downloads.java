// Brings files of endpoints to local paths: what is asked for at about the same time in one transfer, each file once.
package io.edt.nf;

import java.io.IOException;
import java.io.InterruptedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.attribute.BasicFileAttributes;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.BooleanSupplier;
import nextflow.Global;
import nextflow.Session;

/** Files arrive in a {@link Lane}, are verified there, and get their names whole. */
final class Downloads {
    private static final int BATCHES_AT_ONCE = 4;

    private final Engine engine;
    private final Map<String, Batches> roots = new ConcurrentHashMap<>();
    private final Map<String, Early> ahead = new ConcurrentHashMap<>();

    /** What was asked for ahead, and what it was then. */
    private static final class Early {
        final Request request;
        final Entry entry;
        /** Under which a later run of the session looks for it. */
        final Path name;
        /** Where Nextflow has staged it. */
        volatile Path staged;

        Early(Request request, Entry entry, Path name) {
            this.request = request;
            this.entry = entry;
            this.name = name;
        }
    }

    Downloads(Engine engine) {
        this.engine = engine;
    }

    /** Brings a file or directory to a local path, which it replaces. */
    void fetch(Place place, Path target) throws IOException {
        Early early = ahead.get(place.url());
        if (early == null || !taken(early, target)) {
            fetchAnew(place, target);
        }
    }

    /** The same, for somebody who changes the file: it is nobody else's. */
    void fetchAnew(Place place, Path target) throws IOException {
        begin(place, target).await();
    }

    /** What was fetched ahead of a place that has changed does not count, nor what lies below or above it. */
    void forget(Place place) {
        if (!ahead.isEmpty()) {
            String url = place.url();
            ahead.keySet().removeIf(key -> key.equals(url) || key.startsWith(url + "/") || url.startsWith(key + "/"));
        }
    }

    /** Starts to bring a file or directory here before somebody asks for it. */
    void prefetch(Place place) throws IOException {
        Entry entry = engine.listings.find(place);
        if (entry != null) {
            ahead.computeIfAbsent(place.url(), url -> early(place, entry));
        }
    }

    /** What an earlier run of the session fetched or staged, or a request for it. */
    private Early early(Place place, Entry entry) {
        String key = UUID.nameUUIDFromBytes(place.url().getBytes(StandardCharsets.UTF_8)).toString();
        Path local = home().resolve(key).resolve(place.path.isEmpty() ? "root" : Listings.name(place.path));
        try {
            if (entry.isSame(Files.readAttributes(local, BasicFileAttributes.class))) {
                Request there = new Request(place, local.toRealPath(), entry.size());
                there.end(null);
                return new Early(there, entry, local);
            }
        } catch (IOException error) {
            // It is not there yet.
        }
        return new Early(begin(place, local), entry, local);
    }

    /** Removes what was fetched ahead. Files that Nextflow has staged stay: a link tells the next run of the session where. */
    void forgetAhead() throws IOException {
        Set<Path> kept = new HashSet<>();
        for (Early early : ahead.values()) {
            if (early.staged != null && early.entry.isRegularFile()) {
                Tree.remove(early.name);
                Files.createSymbolicLink(early.name, early.staged.toAbsolutePath());
            }
            if (Files.isSymbolicLink(early.name)) {
                kept.add(early.name.getParent());
            }
        }
        ahead.clear();
        if (Files.isDirectory(home())) {
            try (DirectoryStream<Path> there = Files.newDirectoryStream(home(), folder -> !kept.contains(folder))) {
                for (Path folder : there) {
                    Tree.remove(folder);
                }
            }
        }
    }

    /** Of this session, so that `-resume` finds it. */
    private Path home() {
        Object session = Global.getSession() instanceof Session ? ((Session) Global.getSession()).getUniqueId() : "none";
        return engine.home().resolve("ahead").resolve(session.toString());
    }

    private boolean taken(Early early, Path target) throws InterruptedIOException {
        try {
            early.request.await();
            if (!early.entry.isSame(engine.listings.fresh(early.request.place))) {
                ahead.remove(early.request.place.url(), early);
                return false;
            }
            boolean staged = isStaged(target);
            Tree.place(early.request.local, target, staged);
            if (staged) {
                early.staged = target;
            }
            engine.tally.prefetched();
            return true;
        } catch (InterruptedIOException error) {
            throw error;
        } catch (IOException error) {
            // Whoever asks for it now finds out what is wrong with it.
            return false;
        }
    }

    /** Whether Nextflow stages an input there, which nobody changes; other files belong to those who asked for them. */
    private static boolean isStaged(Path target) {
        Path work = Global.getSession() instanceof Session ? ((Session) Global.getSession()).getWorkDir() : null;
        if (work == null || work.getFileSystem() != target.getFileSystem() || !target.startsWith(work.toAbsolutePath())) {
            return false;
        }
        Path below = work.toAbsolutePath().relativize(target);
        return below.getNameCount() > 1 && below.getName(0).toString().startsWith("stage-");
    }

    private Request begin(Place place, Path target) {
        Request request = new Request(place, target, size(place));
        // A whole root is no name below it, and moves alone.
        String key = place.path.isEmpty() ? "all of " + place.root() : place.root();
        roots.computeIfAbsent(key, root -> new Batches(BATCHES_AT_ONCE, this::carryOut)).add(request);
        return request;
    }

    /** The size that a listing told, if one did. */
    private long size(Place place) {
        try {
            Entry entry = engine.listings.find(place);
            return entry == null ? 0 : entry.size();
        } catch (IOException error) {
            return 0;
        }
    }

    private void carryOut(List<Request> batch) throws IOException {
        Map<String, List<Request>> named = new LinkedHashMap<>();
        batch.forEach(request -> named.computeIfAbsent(request.place.path, path -> new ArrayList<>()).add(request));
        if (batch.isEmpty()) {
            return;
        }
        Path home = engine.home().resolve("staging");
        for (Set<String> names : Lane.parts(home, batch.get(0).place.root(), named.keySet())) {
            Map<String, List<Request>> part = new LinkedHashMap<>(named);
            part.keySet().retainAll(names);
            try {
                bring(home, part);
            } catch (IOException error) {
                part.values().forEach(requests -> requests.forEach(request -> request.end(error)));
            }
        }
    }

    /** Moves what may lie in one lane. */
    private void bring(Path home, Map<String, List<Request>> named) throws IOException {
        Place first = named.values().iterator().next().get(0).place;
        boolean alone = first.isAlone() || first.path.isEmpty();
        BooleanSupplier cancelled = () -> named.values().stream().flatMap(List::stream).allMatch(request -> request.cancelled);
        try (Lane lane = Lane.takeUp(home, first.root(), named.keySet())) {
            Map<String, EdtException> failed =
                    alone ? one(first, lane, cancelled) : several(first, named, lane, cancelled);
            if (lane.goesOn && !alone) {
                dropWhatIsGone(named, failed, lane, cancelled);
            }
            hand(named, failed, lane);
            if (failed.values().stream().noneMatch(EdtException::leavesPart)) {
                lane.release();
            }
        }
    }

    private Map<String, EdtException> several(Place first, Map<String, List<Request>> named, Lane lane, BooleanSupplier cancelled)
            throws InterruptedIOException {
        Move move = new Move(engine, Tally.Direction.STAGED, first.root(), lane.data + "/").with("name", "lane");
        if (first.isServer()) {
            move.with("follow");
        }
        return move.run(named.keySet(), cancelled);
    }

    /** A web address that is alone, or the root itself. */
    private Map<String, EdtException> one(Place place, Lane lane, BooleanSupplier cancelled) throws IOException {
        String name = place.path.isEmpty() ? "root" : place.path;
        Path target = lane.data.resolve(name);
        Files.createDirectories(target.getParent());
        Map<String, EdtException> failed = new Move(engine, Tally.Direction.STAGED, place.endpoint(), target.toString())
                .run(List.of(), cancelled);
        return failed.containsKey("") ? Map.of(place.path, failed.get("")) : failed;
    }

    /** Removes from directories what an earlier attempt brought and the source has no more. */
    private void dropWhatIsGone(
            Map<String, List<Request>> named, Map<String, EdtException> failed, Lane lane, BooleanSupplier cancelled) throws IOException {
        for (Map.Entry<String, List<Request>> entry : named.entrySet()) {
            Path arrived = lane.data.resolve(entry.getKey());
            Place place = entry.getValue().get(0).place;
            if (failed.containsKey(entry.getKey()) || place.isWeb() || !Files.isDirectory(arrived)) {
                continue;
            }
            Move move = new Move(engine, Tally.Direction.STAGED, place.endpoint() + "/", arrived + "/").with("mirror");
            if (place.isServer()) {
                move.with("follow");
            }
            move.run(List.of(), cancelled).values().forEach(error -> failed.put(entry.getKey(), error));
        }
    }

    private void hand(Map<String, List<Request>> named, Map<String, EdtException> failed, Lane lane) {
        List<String> names = new ArrayList<>(named.keySet());
        // What lies inside of something else is taken out of it first.
        names.sort(Comparator.comparingInt(name -> -name.length()));
        for (String name : names) {
            List<Request> requests = named.get(name);
            Path arrived = lane.data.resolve(name.isEmpty() ? "root" : name);
            boolean shared = requests.size() > 1 || isInside(name, named);
            for (Request request : requests) {
                request.end(failed.containsKey(name) ? failed.get(name) : handed(arrived, request, shared));
            }
        }
    }

    private IOException handed(Path arrived, Request request, boolean shared) {
        try {
            if (shared) {
                Tree.place(arrived, request.local, false);
            } else {
                Tree.move(arrived, request.local);
            }
            return null;
        } catch (NoSuchFileException error) {
            return new EdtException("io", "could not find what arrived for " + request.place.url(), error.getMessage(), null, true);
        } catch (IOException error) {
            return error;
        }
    }

    private static boolean isInside(String name, Map<String, ?> names) {
        for (String above = Listings.parent(name); !above.isEmpty(); above = Listings.parent(above)) {
            if (names.containsKey(above)) {
                return true;
            }
        }
        return false;
    }
}
