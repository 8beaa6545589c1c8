// Lets Nextflow ask for more files at once, where edt is used.
package io.edt.nf;

import java.lang.reflect.Field;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import nextflow.Global;
import nextflow.Session;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The pools of threads that stage and publish. */
final class Pools {
    private static final Logger LOG = LoggerFactory.getLogger("nextflow.edt");

    /** Seconds after which a thread without work ends. */
    private static final long IDLE_S = 60;

    private static Object widened;
    private static boolean used;
    private static boolean begun;

    private Pools() {}

    /** A session has begun; paths of edt may have been made before. */
    static synchronized void begin() {
        begun = true;
        if (used) {
            widen();
        }
    }

    /** Somebody uses edt: pipelines that do not keep the pools that they have. */
    static synchronized void widen() {
        used = true;
        Object session = Global.getSession();
        if (!begun || !(session instanceof Session) || session == widened) {
            return;
        }
        widened = session;
        widenStaging((Session) session, Engine.settings().transfers);
        widenPublishing((Session) session, Engine.settings().transfers);
    }

    /** Inputs that are staged at once become one transfer, and Nextflow asks for ten at once. What the user has set stays. */
    private static void widenStaging(Session session, int transfers) {
        if (configured(session, "FileTransfer")) {
            return;
        }
        try {
            Field field = session.getFilePorter().getClass().getDeclaredField("threadPool");
            field.setAccessible(true);
            Object pool = field.get(session.getFilePorter());
            if (pool instanceof ThreadPoolExecutor) {
                resize((ThreadPoolExecutor) pool, transfers);
            }
        } catch (ReflectiveOperationException | RuntimeException error) {
            LOG.debug("Nextflow stages as many files at once as `threadPool.FileTransfer` says", error);
        }
    }

    /**
     * At no moment may there be more threads that stay than threads. All of them may stay, for a pool whose queue is never full makes no
     * others; so those without work end.
     */
    private static void resize(ThreadPoolExecutor pool, int threads) {
        if (threads < pool.getCorePoolSize()) {
            pool.setCorePoolSize(threads);
            pool.setMaximumPoolSize(threads);
        } else {
            pool.setMaximumPoolSize(threads);
            pool.setCorePoolSize(threads);
        }
        pool.setKeepAliveTime(IDLE_S, TimeUnit.SECONDS);
        pool.allowCoreThreadTimeOut(true);
    }

    /** The pool for publishing is made later, from the configuration. */
    @SuppressWarnings("unchecked")
    private static void widenPublishing(Session session, int transfers) {
        if (configured(session, "PublishDir")) {
            return;
        }
        try {
            Map<String, Object> pools = (Map<String, Object>) session.getConfig().computeIfAbsent("threadPool", name -> new HashMap<>());
            Map<String, Object> pool = new HashMap<>(Map.of("minThreads", transfers, "maxThreads", transfers));
            pool.put("allowThreadTimeout", true);
            pools.put("PublishDir", pool);
        } catch (RuntimeException error) {
            LOG.debug("Nextflow publishes as many files at once as `threadPool.PublishDir` says", error);
        }
    }

    private static boolean configured(Session session, String name) {
        Object pools = session.getConfig().get("threadPool");
        return pools instanceof Map && ((Map<?, ?>) pools).get(name) != null;
    }
}
