// A transfer of edt with its attempts, and what became of each name.
package io.edt.nf;

import java.io.InterruptedIOException;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.BooleanSupplier;

/** Moves names below a source to a destination, as often as the settings allow. */
final class Move {
    private static final long LOOK_MILLIS = 100;

    private final Engine engine;
    private final Tally.Direction direction;
    private final String source;
    private final String destination;
    private final List<String> flags = new ArrayList<>();

    Move(Engine engine, Tally.Direction direction, String source, String destination) {
        this.engine = engine;
        this.direction = direction;
        this.source = source;
        this.destination = destination;
    }

    /** Adds an option of the transfer. */
    Move with(String name, String value) {
        flags.add(name);
        flags.add(value);
        return this;
    }

    Move with(String name) {
        return with(name, "");
    }

    /** Moves; answers with the errors of names that failed. No names: all of the source, whose name is then nothing. */
    Map<String, EdtException> run(Collection<String> names, BooleanSupplier cancelled) throws InterruptedIOException {
        Map<String, EdtException> failed = new HashMap<>();
        Set<String> left = new LinkedHashSet<>(names.isEmpty() ? List.of("") : names);
        long most = 0;
        for (int attempt = 0;; attempt++) {
            long[] progress = new long[Native.PROGRESS];
            Map<String, EdtException> errors = attempt(left, progress, cancelled);
            boolean last = attempt >= engine.settings.retries;
            left.clear();
            for (Map.Entry<String, EdtException> error : errors.entrySet()) {
                if (error.getValue().isTransient() && !last) {
                    left.add(error.getKey());
                } else {
                    failed.put(error.getKey(), error.getValue());
                }
            }
            if (left.isEmpty()) {
                return failed;
            }
            engine.tally.warn("attempt " + (attempt + 1) + " broke off: " + errors.get(left.iterator().next()).getMessage());
            if (cancelled.getAsBoolean() || !engine.sleep(attempt)) {
                throw new InterruptedIOException("it was cancelled; the next attempt goes on where it was");
            }
            // Attempts count without progress only.
            attempt = progress[1] > most ? -1 : attempt;
            most = Math.max(most, progress[1]);
        }
    }

    private Map<String, EdtException> attempt(Set<String> names, long[] progress, BooleanSupplier cancelled) throws InterruptedIOException {
        Fields transfer = new Fields(source, destination);
        flags.forEach(transfer::add);
        names.stream().filter(name -> !name.isEmpty()).forEach(name -> transfer.add("file").add(name));
        try {
            long running = engine.start(transfer.bytes());
            engine.tally.begin(running, progress);
            try {
                boolean told = false;
                while (!Native.await(running, LOOK_MILLIS, progress)) {
                    if (!told && cancelled.getAsBoolean()) {
                        Native.cancel(running);
                        told = true;
                    }
                }
                return told(Fields.of(Native.finish(running)), names);
            } finally {
                engine.tally.end(running);
            }
        } catch (EdtException error) {
            if (error.code().equals("cancelled")) {
                throw new InterruptedIOException("it was cancelled; the next attempt goes on where it was");
            }
            Map<String, EdtException> all = new HashMap<>();
            names.forEach(name -> all.put(name, error));
            return all;
        }
    }

    /** The first error of each name: its own, or that of something below it. */
    private Map<String, EdtException> told(Fields report, Set<String> names) {
        long files = report.number();
        long skipped = report.number();
        long bytes = report.number();
        long kept = report.number();
        engine.tally.add(direction, files, bytes, skipped, kept);
        long failed = report.number();
        long known = 0;
        Map<String, EdtException> errors = new HashMap<>();
        while (report.more()) {
            String path = report.next();
            String code = report.next();
            String what = report.next();
            EdtException error = new EdtException(code, what, report.next(), report.next(), report.next().equals("1"));
            String name = path;
            while (!name.isEmpty() && !names.contains(name)) {
                name = Listings.parent(name);
            }
            known += names.contains(name) ? 1 : 0;
            if (names.contains(name)) {
                errors.putIfAbsent(name, error);
            }
        }
        if (failed > known) {
            // Nobody knows which: none of them may pass for complete.
            for (String name : names) {
                errors.putIfAbsent(name, new EdtException("io", (failed - known) + " more items of the batch failed", null, null, false));
            }
        }
        return errors;
    }
}
