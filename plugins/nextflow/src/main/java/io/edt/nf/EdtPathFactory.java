// Makes paths of the texts that edt claims, and tells scripts of compute nodes how to bring files there.
package io.edt.nf;

import java.nio.file.Path;
import java.util.Map;
import nextflow.file.FileHelper;
import nextflow.file.FileSystemPathFactory;
import nextflow.plugin.Priority;

/** Asked before the factories of Nextflow, because `edt.schemes` may claim what they would take. */
@Priority(-10)
public final class EdtPathFactory extends FileSystemPathFactory {
    private static final String UPLOAD = "nxf_edt_upload() {\n    %s \"$1\" \"$2/%s\"\n}\n";

    @Override
    protected Path parseUri(String uri) {
        Settings settings = Engine.settings();
        Place place = Place.parse(uri, settings.schemes);
        if (place == null) {
            return null;
        }
        Path mounted = mounted(place, settings);
        return mounted == null ? provider().path(place) : mounted;
    }

    @Override
    protected String toUriString(Path path) {
        return path instanceof EdtPath ? path.toAbsolutePath().toString() : null;
    }

    @Override
    protected String getBashLib(Path target) {
        if (!(target instanceof EdtPath)) {
            return null;
        }
        // What follows is a URL, in which `%` begins a code; keys of object stores are taken as they are.
        String name = ((EdtPath) target).place().hasKeys() ? "$1" : "${1//\\%/%25}";
        return String.format(UPLOAD, copying(), name);
    }

    @Override
    protected String getUploadCmd(String source, Path target) {
        if (!(target instanceof EdtPath)) {
            return null;
        }
        Place directory = ((EdtPath) target).place();
        Engine.get().listings.writtenByTasks(directory);
        // The source is a variable of the script that calls.
        return "nxf_edt_upload \"" + source + "\" " + quoted(directory.endpoint());
    }

    static EdtFileSystemProvider provider() {
        return FileHelper.getOrInstallProvider(EdtFileSystemProvider.class);
    }

    /** The command that copies on a node, as the settings reach servers. */
    static String copying() {
        Map<String, String> settings = Engine.settings().engine;
        StringBuilder command = new StringBuilder("edt cp --quiet");
        if (settings.containsKey("tokenFile")) {
            command.append(" --token-file ").append(quoted(settings.get("tokenFile")));
        }
        if (settings.containsKey("knownHosts")) {
            command.append(" --known-hosts ").append(quoted(settings.get("knownHosts")));
        }
        if (settings.containsKey("maxStreams")) {
            command.append(" --max-streams ").append(quoted(settings.get("maxStreams")));
        }
        if (settings.containsKey("limitRate")) {
            command.append(" --limit-rate ").append(quoted(settings.get("limitRate")));
        }
        if ("true".equals(settings.get("plain"))) {
            command.append(" --plain");
        }
        return command.toString();
    }

    static String quoted(String text) {
        return "'" + text.replace("'", "'\\''") + "'";
    }

    /** The local path of what is mounted; null if it is not. */
    private static Path mounted(Place place, Settings settings) {
        for (Map.Entry<String, Path> mount : settings.mounts.entrySet()) {
            Place at = Place.parse(mount.getKey(), java.util.Set.of(place.scheme));
            if (at == null || !at.shownRoot().equals(place.shownRoot()) || place.isAlone()) {
                continue;
            }
            if (at.path.isEmpty() || place.path.equals(at.path)) {
                return mount.getValue().resolve(at.path.isEmpty() ? place.path : "");
            }
            if (place.path.startsWith(at.path + "/")) {
                return mount.getValue().resolve(place.path.substring(at.path.length() + 1));
            }
        }
        return null;
    }
}
