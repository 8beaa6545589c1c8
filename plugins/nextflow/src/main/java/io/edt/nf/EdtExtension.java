// Functions for scripts: `include { edtPrefetch; edtGet } from 'plugin/nf-edt'`.
package io.edt.nf;

import java.io.IOException;
import java.nio.file.FileSystems;
import java.nio.file.Path;
import java.util.Map;
import nextflow.Session;
import nextflow.file.FileHelper;
import nextflow.plugin.extension.Function;
import nextflow.plugin.extension.PluginExtensionPoint;

/** The functions of the plugin. */
public final class EdtExtension extends PluginExtensionPoint {
    @Override
    protected void init(Session session) {
        // The engine is made with its first use.
    }

    /**
     * Starts to fetch what it is given, files of edt in lists and maps included, and returns it unchanged: as many files are under way as
     * pass through, where Nextflow stages those of as many tasks at once as `poolSize` says.
     */
    @Function
    public Object edtPrefetch(Object given) throws IOException {
        if (given instanceof Iterable && !(given instanceof Path)) {
            for (Object one : (Iterable<?>) given) {
                edtPrefetch(one);
            }
        } else if (given instanceof Map) {
            edtPrefetch(((Map<?, ?>) given).values());
        } else if (given instanceof EdtPath) {
            Engine.get().downloads.prefetch(((EdtPath) given).place());
        }
        return given;
    }

    /** A line for the script of a task that fetches a file or directory on the node where it runs, under its own name. */
    @Function
    public String edtGet(Object address) throws IOException {
        return edtGet(address, null);
    }

    /** The same, under another name. */
    @Function
    public String edtGet(Object address, Object name) throws IOException {
        Object path = address instanceof Path ? address : FileHelper.asPath(address.toString());
        if (!(path instanceof EdtPath)) {
            if (((Path) path).getFileSystem() != FileSystems.getDefault()) {
                throw new IllegalArgumentException("could not use `" + address + "` for edtGet: edt does not claim it"
                        + " (hint: write edt+s3://, edt+https:// and so on, or set edt.schemes)");
            }
            return "ln -s " + EdtPathFactory.quoted(path.toString()) + " " + EdtPathFactory.quoted(named((Path) path, name));
        }
        String source = EdtPathFactory.quoted(((EdtPath) path).place().endpoint());
        return EdtPathFactory.copying() + " " + source + " " + EdtPathFactory.quoted(named((Path) path, name));
    }

    private static String named(Path path, Object name) {
        return name == null ? path.getFileName().toString() : name.toString();
    }
}
