// Stands for the annotation of Nextflow 25.04 where an older one compiles the plugin, or runs it.
package nextflow.config.schema;

import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/** The name of a scope. */
@Retention(RetentionPolicy.RUNTIME)
@Target(ElementType.TYPE)
public @interface ScopeName {
    /** The name. */
    String value();
}
