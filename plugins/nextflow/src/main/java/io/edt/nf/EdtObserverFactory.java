// What happens at the begin and at the end of a run.
package io.edt.nf;

import java.io.IOException;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ThreadPoolExecutor;
import nextflow.Session;
import nextflow.trace.TraceObserver;
import nextflow.trace.TraceObserverFactory;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Checks the configuration, lets more files be asked for at once, and tells in the end what has moved. */
public final class EdtObserverFactory implements TraceObserverFactory {
    private static final Logger LOG = LoggerFactory.getLogger("nextflow.edt");

    @Override
    public Collection<TraceObserver> create(Session session) {
        if (!Engine.settings().engine.isEmpty()) {
            Engine.get();
        }
        int transfers = Engine.settings().transfers;
        widenStaging(session, transfers);
        widenPublishing(session, transfers);
        // The interface is a trait of Groovy, which Java sees as one without defaults.
        return List.of((TraceObserver) Proxy.newProxyInstance(
                TraceObserver.class.getClassLoader(), new Class<?>[] {TraceObserver.class},
                (observer, method, arguments) -> observe(session, observer, method, arguments)));
    }

    private static Object observe(Session session, Object observer, Method method, Object[] arguments) {
        switch (method.getName()) {
            case "onFlowComplete":
                complete(session);
                return null;
            case "hashCode":
                return System.identityHashCode(observer);
            case "equals":
                return observer == arguments[0];
            case "toString":
                return "edt";
            default:
                return method.getReturnType() == boolean.class ? Boolean.FALSE : null;
        }
    }

    private static void complete(Session session) {
        Engine engine = Engine.ifUsed();
        if (engine == null) {
            return;
        }
        String summary = engine.tally.summary();
        if (summary != null) {
            LOG.info(summary);
        }
        try {
            // What failed may be resumed.
            if (session.isSuccess()) {
                engine.downloads.forgetAhead();
            }
        } catch (IOException error) {
            LOG.debug("could not remove what was fetched ahead", error);
        }
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
                ((ThreadPoolExecutor) pool).setMaximumPoolSize(transfers);
                ((ThreadPoolExecutor) pool).setCorePoolSize(transfers);
            }
        } catch (ReflectiveOperationException | RuntimeException error) {
            LOG.debug("edt: Nextflow stages as many files at once as `threadPool.FileTransfer` says", error);
        }
    }

    /** The pool for publishing is made later, from the configuration. */
    @SuppressWarnings("unchecked")
    private static void widenPublishing(Session session, int transfers) {
        if (configured(session, "PublishDir")) {
            return;
        }
        try {
            Map<String, Object> pools = (Map<String, Object>) session.getConfig().computeIfAbsent("threadPool", name -> new HashMap<>());
            pools.put("PublishDir", new HashMap<>(Map.of("minThreads", transfers, "maxThreads", transfers)));
        } catch (RuntimeException error) {
            LOG.debug("edt: Nextflow publishes as many files at once as `threadPool.PublishDir` says", error);
        }
    }

    private static boolean configured(Session session, String name) {
        Object pools = session.getConfig().get("threadPool");
        return pools instanceof Map && ((Map<?, ?>) pools).get(name) != null;
    }
}
