// The one engine of a JVM: settings, what is known of files, and the two ways that files move.
package io.edt.nf;

import java.nio.file.FileSystems;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.Map;
import java.util.concurrent.ThreadLocalRandom;
import nextflow.Global;
import nextflow.Session;

/** Made with the first use, from the configuration of the session. */
final class Engine {
    private static final long FIRST_WAIT_MILLIS = 1000;
    private static final long LONGEST_WAIT_MILLIS = 30_000;

    private static Engine one;
    private static Settings read;
    private static Object readFrom;

    final Settings settings;
    final Listings listings;
    final Tally tally;
    final Downloads downloads;
    final Uploads uploads;
    private final long handle;

    /** A call of a native that takes the handle of the engine. */
    interface Call<T> {
        T of(long handle) throws EdtException;
    }

    private Engine(Settings settings) {
        this.settings = settings;
        Fields fields = new Fields();
        settings.engine.forEach((name, value) -> fields.add(name).add(value));
        handle = opened(fields);
        listings = new Listings(this, settings.statMillis);
        tally = new Tally(settings.progressSeconds);
        downloads = new Downloads(this);
        uploads = new Uploads(this);
        Runtime.getRuntime().addShutdownHook(new Thread(tally::end, "edt-end"));
    }

    /** A mistake in the configuration is none of a file: Nextflow must not take it for one that is missing. */
    private static long opened(Fields settings) {
        Native.load();
        try {
            return Native.open(settings.bytes());
        } catch (EdtException error) {
            throw new IllegalArgumentException(error.getMessage(), error);
        }
    }

    static synchronized Engine get() {
        if (one == null) {
            one = new Engine(settings());
        }
        return one;
    }

    /** The engine, or null if nothing has used it. */
    static synchronized Engine ifUsed() {
        return one;
    }

    /** The scope `edt` of the configuration that is there at present. */
    static synchronized Settings settings() {
        Map<?, ?> config = Global.getConfig();
        Object scope = config == null ? null : config.get("edt");
        if (read == null || scope != readFrom) {
            if (scope != null && !(scope instanceof Map)) {
                throw new IllegalArgumentException("could not use `" + scope + "` for `edt`: write edt { option = value }");
            }
            read = new Settings(scope == null ? Map.of() : (Map<?, ?>) scope);
            readFrom = scope;
        }
        return read;
    }

    /** Calls a native, again after a failure that may pass. */
    <T> T call(Call<T> call) throws EdtException {
        for (int attempt = 0;; attempt++) {
            try {
                return call.of(handle);
            } catch (EdtException error) {
                if (!error.isTransient() || attempt >= settings.retries || !sleep(attempt)) {
                    throw error;
                }
            }
        }
    }

    /** Changes something: once, because it may have been done although the answer was lost; to make a directory again is no error. */
    void change(String operation, byte[] block) throws EdtException {
        if (!operation.equals("directory")) {
            Native.change(handle, block);
            return;
        }
        call(given -> {
            Native.change(given, block);
            return null;
        });
    }

    /** Calls a native that starts something, once. */
    long start(byte[] transfer) throws EdtException {
        return Native.start(handle, transfer);
    }

    /** Waits before the attempt after this one (0, 1, ...); false if the thread was interrupted. */
    boolean sleep(int attempt) {
        long wait = Math.min(LONGEST_WAIT_MILLIS, FIRST_WAIT_MILLIS << Math.min(attempt, 5));
        try {
            Thread.sleep(wait * 3 / 4 + ThreadLocalRandom.current().nextLong(wait / 2));
            return true;
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            return false;
        }
    }

    /** Where partial files and what is to be moved lie: on the file system of the work directory, where renaming is free. */
    Path home() {
        if (settings.partialDir != null) {
            return settings.partialDir;
        }
        Path work = Global.getSession() instanceof Session ? ((Session) Global.getSession()).getWorkDir() : null;
        boolean local = work != null && work.getFileSystem() == FileSystems.getDefault();
        return (local ? work.toAbsolutePath() : Paths.get(System.getProperty("java.io.tmpdir"))).resolve(".edt");
    }
}
