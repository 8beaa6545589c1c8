// Stands for the interface of Nextflow 25.10 and newer where an older one compiles the plugin, or runs it.
package nextflow.config.spec;

import org.pf4j.ExtensionPoint;

/** A scope of the configuration. */
public interface ConfigScope extends ExtensionPoint {}
