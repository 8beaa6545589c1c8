// What has moved and is moving: the line of progress, and the summary at the end of the run.
package io.edt.nf;

import java.util.EnumMap;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Counts for all transfers of a JVM. */
final class Tally {
    /** Nextflow shows on the console what loggers below `nextflow` tell. */
    private static final Logger LOG = LoggerFactory.getLogger("nextflow.edt");

    /** Which way files go. */
    enum Direction { STAGED, PUBLISHED }

    private static final class Sum {
        long files;
        long bytes;
        long kept;
    }

    private final Map<Direction, Sum> sums = new EnumMap<>(Direction.class);
    private final Map<Long, long[]> running = new ConcurrentHashMap<>();
    private long prefetched;

    Tally(long seconds) {
        for (Direction direction : Direction.values()) {
            sums.put(direction, new Sum());
        }
        if (seconds > 0) {
            Thread teller = new Thread(() -> tell(seconds * 1000), "edt-progress");
            teller.setDaemon(true);
            teller.start();
        }
    }

    /** A transfer has begun; `progress` is filled while it runs. */
    void begin(long transfer, long[] progress) {
        running.put(transfer, progress);
    }

    void end(long transfer) {
        running.remove(transfer);
    }

    /** Files that have moved, and what was there from an earlier attempt. */
    synchronized void add(Direction direction, long files, long bytes, long skipped, long kept) {
        Sum sum = sums.get(direction);
        sum.files += files + skipped;
        sum.bytes += bytes;
        sum.kept += kept;
    }

    /** A file that was there when it was asked for. */
    synchronized void prefetched() {
        prefetched++;
    }

    void warn(String text) {
        LOG.warn("edt: {}", text);
    }

    /** Cancels what still runs when the JVM ends: what has arrived is kept for the next run. */
    void end() {
        for (long transfer : running.keySet()) {
            try {
                Native.cancel(transfer);
            } catch (EdtException error) {
                // It ended meanwhile.
            }
        }
        long until = System.nanoTime() + 5_000_000_000L;
        while (!running.isEmpty() && System.nanoTime() < until) {
            try {
                Thread.sleep(20);
            } catch (InterruptedException error) {
                return;
            }
        }
    }

    /** What the whole run has moved, in one line; null if that is nothing. */
    synchronized String summary() {
        Sum staged = sums.get(Direction.STAGED);
        Sum published = sums.get(Direction.PUBLISHED);
        if (staged.files + published.files == 0) {
            return null;
        }
        StringBuilder text = new StringBuilder("edt: ");
        text.append("staged ").append(told(staged));
        text.append("; published ").append(told(published));
        if (staged.kept + published.kept > 0) {
            text.append("; ").append(bytes(staged.kept + published.kept)).append(" were there from an earlier attempt");
        }
        if (prefetched > 0) {
            text.append("; ").append(prefetched).append(" files were fetched ahead");
        }
        return text.toString();
    }

    private static String told(Sum sum) {
        return sum.files + (sum.files == 1 ? " file, " : " files, ") + bytes(sum.bytes);
    }

    private void tell(long millis) {
        while (true) {
            try {
                Thread.sleep(millis);
            } catch (InterruptedException error) {
                return;
            }
            String line = line();
            if (line != null) {
                LOG.info(line);
            }
        }
    }

    /** How far the transfers are that run at present; null if none does. */
    String line() {
        long[] sum = new long[Native.PROGRESS];
        boolean all = true;
        int count = 0;
        for (long[] one : running.values()) {
            for (int index = 0; index < sum.length; index++) {
                sum[index] += one[index];
            }
            all &= one[4] == 1;
            count++;
        }
        if (count == 0) {
            return null;
        }
        String ofFiles = all ? "/" + sum[2] : "";
        String ofBytes = all ? " of " + bytes(sum[3]) : "";
        return String.format(Locale.ROOT, "edt: %d%s files, %s%s, %.2f Gbit/s, %d streams",
                sum[0], ofFiles, bytes(sum[1]), ofBytes, sum[5] * 8 / 1e9, sum[6]);
    }

    static String bytes(long bytes) {
        return bytes < 1_000_000_000
                ? String.format(Locale.ROOT, "%.1f MB", bytes / 1e6)
                : String.format(Locale.ROOT, "%.1f GB", bytes / 1e9);
    }
}
