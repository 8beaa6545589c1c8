// Stands for the annotation of Nextflow 25.04 where an older one compiles the plugin, or runs it.
package nextflow.script.dsl;

import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/** What something is for. */
@Retention(RetentionPolicy.RUNTIME)
@Target({ElementType.METHOD, ElementType.TYPE, ElementType.FIELD})
public @interface Description {
    /** The text. */
    String value();
}
