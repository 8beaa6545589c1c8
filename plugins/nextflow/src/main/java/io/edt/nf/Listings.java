// What is known of the files of endpoints: thousands of questions become a few listings.
package io.edt.nf;

import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/**
 * Answers for a while from what was listed. The first question in a directory is answered by a look at the one file, the second one lists
 * the directory. Threads may share it.
 */
final class Listings {
    private final Engine engine;
    private final long ttlNanos;
    private final Map<String, Known<Entry>> single = new ConcurrentHashMap<>();
    private final Map<String, Known<Map<String, Entry>>> listed = new ConcurrentHashMap<>();
    private final Map<String, Object> locks = new ConcurrentHashMap<>();
    private final Map<String, Integer> asked = new ConcurrentHashMap<>();

    private static final class Known<T> {
        final T answer;
        final long until;

        Known(T answer, long until) {
            this.answer = answer;
            this.until = until;
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
        if (known == null) {
            synchronized (locks.computeIfAbsent(place.root() + parent(place.path), key -> new Object())) {
                known = known(place);
                if (known == null) {
                    known = look(place);
                }
            }
        }
        return known.answer;
    }

    /** The direct children of a directory, looked up afresh; null if there is none. */
    List<Entry> children(Place directory) throws IOException {
        return new ArrayList<>(list(directory).answer.values());
    }

    /** Drops what is known of a place that may have changed, and of what lies above and below it. */
    void forget(Place place) {
        String root = place.root();
        String below = root + place.path;
        single.keySet().removeIf(key -> key.equals(below) || key.startsWith(below + "/"));
        listed.keySet().removeIf(key -> key.equals(below) || key.startsWith(below + "/"));
        String above = place.path;
        while (!above.isEmpty()) {
            above = parent(above);
            listed.remove(root + above);
            single.remove(root + above);
        }
    }

    private Known<Entry> known(Place place) {
        long now = System.nanoTime();
        Known<Entry> one = single.get(place.root() + place.path);
        if (one != null && now < one.until) {
            return one;
        }
        Known<Map<String, Entry>> beside = listed.get(place.root() + parent(place.path));
        return beside == null || now >= beside.until ? null : new Known<>(beside.answer.get(name(place.path)), beside.until);
    }

    private Known<Entry> look(Place place) throws IOException {
        Place parent = place.at(parent(place.path));
        int before = asked.merge(parent.root() + parent.path, 1, Integer::sum);
        if (before > 1 && !place.isWeb() && place.tail.isEmpty()) {
            try {
                Known<Map<String, Entry>> beside = list(parent);
                return new Known<>(beside.answer.get(name(place.path)), beside.until);
            } catch (EdtException error) {
                if (error.isTransient()) {
                    throw error;
                }
                // It may be a directory that may not be listed: the file alone is looked at.
            }
        }
        return stat(place);
    }

    private Known<Entry> stat(Place place) throws IOException {
        long begun = System.nanoTime();
        Entry entry = null;
        try {
            entry = new Entry(Fields.of(engine.call(handle -> Native.stat(handle, place.fields().bytes()))));
        } catch (EdtException error) {
            if (!error.code().equals("not-found") && !error.code().equals("wrong-type")) {
                throw error;
            }
        }
        Known<Entry> known = new Known<>(entry, until(begun));
        single.put(place.root() + place.path, known);
        return known;
    }

    private Known<Map<String, Entry>> list(Place directory) throws IOException {
        long begun = System.nanoTime();
        Map<String, Entry> entries = new HashMap<>();
        Fields fields = Fields.of(engine.call(handle -> Native.list(handle, directory.fields().bytes(), false)));
        while (fields.more()) {
            Entry entry = new Entry(fields);
            if (!entry.path.isEmpty()) {
                entries.put(entry.path, entry);
            }
        }
        long now = System.nanoTime();
        listed.values().removeIf(old -> now >= old.until);
        single.values().removeIf(old -> now >= old.until);
        Known<Map<String, Entry>> known = new Known<>(entries, until(begun));
        listed.put(directory.root() + directory.path, known);
        return known;
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
