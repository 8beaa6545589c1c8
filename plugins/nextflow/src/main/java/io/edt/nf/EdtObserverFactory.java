// What happens at the begin and at the end of a run.
package io.edt.nf;

import java.io.IOException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.Collection;
import java.util.List;
import nextflow.Session;
import nextflow.trace.TraceObserver;
import nextflow.trace.TraceObserverFactory;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Checks the configuration, and tells in the end what has moved. */
public final class EdtObserverFactory implements TraceObserverFactory {
    private static final Logger LOG = LoggerFactory.getLogger("nextflow.edt");

    @Override
    public Collection<TraceObserver> create(Session session) {
        if (!Engine.settings().engine.isEmpty()) {
            Engine.get();
        }
        Pools.begin();
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
}
