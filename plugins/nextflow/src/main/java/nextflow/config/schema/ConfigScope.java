// Stands for the interface of Nextflow 25.04 where an older one compiles the plugin, or runs it.
package nextflow.config.schema;

import org.pf4j.ExtensionPoint;

/** A scope of the configuration. */
public interface ConfigScope extends ExtensionPoint {}
