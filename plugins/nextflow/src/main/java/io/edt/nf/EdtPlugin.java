// The plugin as Nextflow starts it.
package io.edt.nf;

import nextflow.file.FileHelper;
import nextflow.plugin.BasePlugin;
import org.pf4j.PluginClassLoader;
import org.pf4j.PluginWrapper;

/** Adds the file system; the rest are extensions that Nextflow finds by itself. */
public final class EdtPlugin extends BasePlugin {
    private final PluginWrapper plugin;

    /** Called by Nextflow. */
    public EdtPlugin(PluginWrapper wrapper) {
        super(wrapper);
        plugin = wrapper;
    }

    /** There is no session and no configuration yet: nothing else can be done here. */
    @Override
    public void start() {
        super.start();
        addMissing();
        FileHelper.getOrInstallProvider(EdtFileSystemProvider.class);
    }

    /** Versions of Nextflow that know no scopes of plugins would log a failure each time that they look for extensions. */
    private void addMissing() {
        ClassLoader loader = plugin.getPluginClassLoader();
        try {
            Class.forName("nextflow.config.schema.ConfigScope", false, loader);
        } catch (ClassNotFoundException error) {
            if (loader instanceof PluginClassLoader) {
                ((PluginClassLoader) loader).addFile(plugin.getPluginPath().resolve("missing").toFile());
            }
        }
    }
}
