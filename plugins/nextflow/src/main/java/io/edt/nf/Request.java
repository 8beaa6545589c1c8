// A file or directory that is to be moved to or from a local path.
package io.edt.nf;

import java.io.IOException;
import java.io.InterruptedIOException;
import java.nio.file.Path;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;

/** Somebody waits for it, or comes back for it. */
final class Request {
    final Place place;
    final Path local;
    /** Bytes, as far as they are known. */
    final long size;
    final CompletableFuture<Void> done = new CompletableFuture<>();
    volatile boolean cancelled;

    Request(Place place, Path local, long size) {
        this.place = place;
        this.local = local;
        this.size = size;
    }

    void end(IOException error) {
        if (error == null) {
            done.complete(null);
        } else {
            done.completeExceptionally(error);
        }
    }

    /** Waits until it was carried out. An interrupted thread waits no longer, and what arrived is kept. */
    void await() throws IOException {
        try {
            done.get();
        } catch (InterruptedException error) {
            cancelled = true;
            Thread.currentThread().interrupt();
            throw new InterruptedIOException("interrupted while moving " + place.url());
        } catch (ExecutionException error) {
            Throwable cause = error.getCause();
            throw cause instanceof EdtException
                    ? ((EdtException) cause).about(place.url())
                    : new IOException(cause.getMessage(), cause);
        }
    }
}
