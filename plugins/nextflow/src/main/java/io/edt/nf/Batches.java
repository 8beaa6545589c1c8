// Gathers what threads ask for at about the same time, and hands it over as batches.
package io.edt.nf;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.TimeUnit;

/** One queue, for what goes between one root and this machine. */
final class Batches {
    /** A first request waits so long for others: tasks ask from many threads. */
    private static final long WINDOW_MILLIS = 15;
    private static final int MOST_FILES = 2000;
    /** Whoever waits for one file of a batch waits for all of it. */
    private static final long MOST_BYTES = 4L << 30;

    private static final ThreadFactory DAEMONS = work -> {
        Thread thread = new Thread(work, "edt-batch");
        thread.setDaemon(true);
        return thread;
    };
    private static final ScheduledExecutorService TIMER = Executors.newSingleThreadScheduledExecutor(DAEMONS);
    private static final ExecutorService THREADS = Executors.newCachedThreadPool(DAEMONS);

    private final int atOnce;
    private final Work work;
    private final Deque<Request> waiting = new ArrayDeque<>();
    private int running;
    private boolean scheduled;

    /** Carries a batch out; it need not end requests that it throws for. */
    interface Work {
        void carryOut(List<Request> batch) throws Exception;
    }

    /** `atOnce` batches are under way at most: with more, a long one holds up less; with fewer, each is larger. */
    Batches(int atOnce, Work work) {
        this.atOnce = atOnce;
        this.work = work;
    }

    synchronized void add(Request request) {
        waiting.add(request);
        schedule(WINDOW_MILLIS);
    }

    private void schedule(long millis) {
        if (!scheduled && running < atOnce && !waiting.isEmpty()) {
            scheduled = true;
            TIMER.schedule(this::start, millis, TimeUnit.MILLISECONDS);
        }
    }

    private void start() {
        try {
            THREADS.execute(this::run);
        } catch (Throwable error) {
            fail(error);
        }
    }

    /** No thread can be made: whoever waits must know, and the next request tries again. */
    private synchronized void fail(Throwable error) {
        scheduled = false;
        waiting.forEach(request -> request.done.completeExceptionally(error));
        waiting.clear();
    }

    private void run() {
        List<Request> batch = next();
        try {
            work.carryOut(batch);
            batch.forEach(request -> request.end(new java.io.IOException("left out of its batch: " + request.place.url())));
        } catch (Throwable error) {
            batch.forEach(request -> request.done.completeExceptionally(error));
        } finally {
            synchronized (this) {
                running--;
                schedule(0);
            }
        }
    }

    private synchronized List<Request> next() {
        scheduled = false;
        running++;
        List<Request> batch = new ArrayList<>();
        long bytes = 0;
        while (!waiting.isEmpty() && batch.size() < MOST_FILES && (batch.isEmpty() || bytes + waiting.peek().size <= MOST_BYTES)) {
            Request request = waiting.remove();
            bytes += request.size;
            if (!request.cancelled) {
                batch.add(request);
            }
        }
        schedule(WINDOW_MILLIS);
        return batch;
    }
}
