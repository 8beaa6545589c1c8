// What is known of the files of endpoints: thousands of questions become a few listings.
package io.edt.nf;

import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentNavigableMap;
import java.util.concurrent.ConcurrentSkipListMap;

/**
 * Answers for a while from what was listed. The first question in a directory is answered by a look at the one file, the second one lists
 * the directory. Threads may share it.
 */
final class Listings {
    private final Engine engine;
    private final long ttlNanos;
    /** Listings of directories with more entries are not asked for again: the files are looked at. */
    private static final int MOST_ENTRIES = 20_000;

    private final ConcurrentNavigableMap<String, Known<Entry>> single = new ConcurrentSkipListMap<>();
    private final ConcurrentNavigableMap<String, Known<Map<String, Entry>>> listed = new ConcurrentSkipListMap<>();
    private final Set<String> large = ConcurrentHashMap.newKeySet();
    /** Directories of object stores whose children somebody has asked for. */
    private final Set<String> walked = ConcurrentHashMap.newKeySet();
    /** Directories into which tasks bring files by themselves, so that nothing here is told of it. */
    private final Set<String> written = ConcurrentHashMap.newKeySet();
    private final Map<String, Object> locks = new ConcurrentHashMap<>();
    private final Map<String, Integer> asked = new ConcurrentHashMap<>();
    private final Set<Question> questions = ConcurrentHashMap.newKeySet();

    private static final class Known<T> {
        final T answer;
        final long until;
        /** Names below it that have changed since it was asked for, and nothing as the name of itself. */
        final Set<String> changed;

        Known(T answer, long until, Set<String> changed) {
            this.answer = answer;
            this.until = until;
            this.changed = changed;
        }
    }

    /** Its answer is under way. What another thread changes meanwhile is noted, for the answer may be of before. */
    private final class Question implements AutoCloseable {
        final String key;
        final long begun = System.nanoTime();
        final Set<String> changed = ConcurrentHashMap.newKeySet();

        Question(Place place) {
            key = place.root() + place.path;
            questions.add(this);
        }

        void note(String root, String path) {
            String here = root + path;
            String above = key.equals(root) ? root : key + "/";
            if (key.equals(here) || key.startsWith(here + "/")) {
                changed.add("");
            } else if (here.startsWith(above)) {
                changed.add(here.substring(above.length()).split("/")[0]);
            }
        }

        @Override
        public void close() {
            questions.remove(this);
        }
    }

    Listings(Engine engine, long ttlMillis) {
        this.engine = engine;
        this.ttlNanos = ttlMillis * 1_000_000;
    }

    /** The entry of a place; null if there is none. */
    Entry find(Place place) throws IOException {
        if (place.path.isEmpty()) {
            return Entry.root();
        }
        Known<Entry> known = known(place);
        return known == null ? look(place) : known.answer;
    }

    /** The entry as it is at this moment; null if there is none. */
    Entry fresh(Place place) throws IOException {
        return place.path.isEmpty() ? Entry.root() : stat(place);
    }

    /** The path below the root without links in it. */
    String real(Place place) throws IOException {
        return Fields.of(engine.call(handle -> Native.stat(handle, place.fields().add("real").bytes()))).next();
    }

    /** The direct children of a directory, looked up afresh; null if there is none. */
    List<Entry> children(Place directory) throws IOException {
        List<Entry> children = new ArrayList<>(list(directory).answer.values());
        if (directory.hasKeys()) {
            walked.add(directory.root() + directory.path);
        }
        return children;
    }

    /** Whether the children of a directory of an object store were asked for; says so once. */
    boolean takeListed(Place directory) {
        return walked.remove(directory.root() + directory.path);
    }

    /** Drops what is known of a place that may have changed, and of what lies above and below it. */
    void forget(Place place) {
        String root = place.root();
        String here = root + place.path;
        questions.forEach(question -> question.note(root, place.path));
        single.remove(here);
        listed.remove(here);
        // All that begins with the path and a slash: `0` follows the slash.
        single.subMap(here + "/", here + "0").clear();
        listed.subMap(here + "/", here + "0").clear();
        for (String path = place.path; !path.isEmpty(); path = parent(path)) {
            single.remove(root + parent(path));
            Known<Map<String, Entry>> beside = listed.get(root + parent(path));
            if (beside != null) {
                beside.changed.add(name(path));
            }
        }
        engine.downloads.forget(place);
    }

    /** That tasks bring files into a directory by themselves: what is not there now may be in a moment. */
    void writtenByTasks(Place directory) {
        written.add(directory.root() + directory.path);
    }

    private boolean isWrittenByTasks(Place place) {
        for (String path = place.path; !path.isEmpty(); path = parent(path)) {
            if (written.contains(place.root() + path)) {
                return true;
            }
        }
        return written.contains(place.root());
    }

    private Known<Entry> known(Place place) {
        Known<Entry> told = toldOf(place);
        return told != null && told.answer == null && isWrittenByTasks(place) ? null : told;
    }

    private Known<Entry> toldOf(Place place) {
        long now = System.nanoTime();
        Known<Entry> one = single.get(place.root() + place.path);
        if (one != null && now < one.until && one.changed.isEmpty()) {
            return one;
        }
        Known<Map<String, Entry>> beside = listed.get(place.root() + parent(place.path));
        return beside == null || now >= beside.until ? null : told(beside, place);
    }

    /** What a listing tells of a name; null if it tells nothing that counts. */
    private static Known<Entry> told(Known<Map<String, Entry>> beside, Place place) {
        // Where nothing at all is listed, there may be a directory that does not tell what is in it.
        boolean tells = !beside.changed.contains("") && !beside.changed.contains(name(place.path)) && !beside.answer.isEmpty();
        return tells ? new Known<>(beside.answer.get(name(place.path)), beside.until, Set.of()) : null;
    }

    private Entry look(Place place) throws IOException {
        Place parent = place.at(parent(place.path));
        String key = parent.root() + parent.path;
        int before = asked.merge(key, 1, Integer::sum);
        if (before > 1 && !place.isWeb() && !large.contains(key)) {
            synchronized (locks.computeIfAbsent(key, path -> new Object())) {
                Known<Entry> known = known(place);
                known = known == null ? besides(parent, place) : known;
                if (known != null) {
                    return known.answer;
                }
            }
        }
        return stat(place);
    }

    /** What a listing that nobody has asked for yet tells of a name; null if it tells nothing that counts. */
    private Known<Entry> besides(Place parent, Place place) throws IOException {
        Known<Map<String, Entry>> there = listed.get(parent.root() + parent.path);
        if (there != null && System.nanoTime() < there.until) {
            return null;
        }
        try {
            return told(list(parent), place);
        } catch (EdtException error) {
            if (error.isTransient()) {
                throw error;
            }
            // It may be a directory that may not be listed: the file alone is looked at.
            return null;
        }
    }

    private Entry stat(Place place) throws IOException {
        try (Question question = new Question(place)) {
            Entry entry = described(place);
            single.put(question.key, new Known<>(entry, until(question.begun), question.changed));
            return entry;
        }
    }

    private Entry described(Place place) throws IOException {
        try {
            return new Entry(Fields.of(engine.call(handle -> Native.stat(handle, place.fields().bytes()))));
        } catch (EdtException error) {
            if (error.code().equals("not-found") || error.code().equals("wrong-type")) {
                return null;
            }
            throw error;
        }
    }

    private Known<Map<String, Entry>> list(Place directory) throws IOException {
        try (Question question = new Question(directory)) {
            Map<String, Entry> entries = entries(directory);
            long now = System.nanoTime();
            listed.values().removeIf(old -> now >= old.until);
            single.values().removeIf(old -> now >= old.until);
            Known<Map<String, Entry>> known = new Known<>(entries, until(question.begun), question.changed);
            if (entries.size() > MOST_ENTRIES) {
                large.add(question.key);
            }
            listed.put(question.key, known);
            return known;
        }
    }

    private Map<String, Entry> entries(Place directory) throws IOException {
        Map<String, Entry> entries = new HashMap<>();
        Fields fields = Fields.of(engine.call(handle -> Native.list(handle, directory.fields().bytes(), false)));
        while (fields.more()) {
            Entry entry = new Entry(fields);
            if (!entry.path.isEmpty()) {
                entries.put(entry.path, entry);
            }
        }
        return entries;
    }

    /** An answer that took long is believed as long. */
    private long until(long begun) {
        long now = System.nanoTime();
        return now + Math.max(ttlNanos, now - begun);
    }

    static String parent(String path) {
        int slash = path.lastIndexOf('/');
        return slash < 0 ? "" : path.substring(0, slash);
    }

    static String name(String path) {
        return path.substring(path.lastIndexOf('/') + 1);
    }
}
