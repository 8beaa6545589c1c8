// The scope `edt` of the configuration, checked before anything is moved.
package io.edt.nf;

import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;

/** What `edt { ... }` says; each option is described in docs/nextflow.md. */
final class Settings {
    private static final Set<String> NAMES = new TreeSet<>(List.of(
            "tokenFile", "knownHosts", "plain", "maxStreams", "limitRate", "retries", "schemes", "mounts", "progress", "statTtl", "transfers",
            "partialDir"));
    private static final Set<String> SCHEMES = new TreeSet<>(List.of("https", "http", "ftp", "ftps", "sftp"));

    /** What the natives take. */
    final Map<String, String> engine = new LinkedHashMap<>();
    /** Further attempts after one that broke off. */
    final int retries;
    /** Schemes of others that edt stages. */
    final Set<String> schemes;
    /** Places that are there as a path, the longest URL first. */
    final Map<String, Path> mounts;
    /** Seconds between lines of progress; 0 for none. */
    final long progressSeconds;
    /** Milliseconds for which a listing is believed. */
    final long statMillis;
    /** Files that are asked for at once. */
    final int transfers;
    /** Where partial files are kept; null for below the work directory. */
    final Path partialDir;

    Settings(Map<?, ?> given) {
        for (Object name : given.keySet()) {
            if (!NAMES.contains(String.valueOf(name))) {
                throw new IllegalArgumentException("unknown option `edt." + name + "`: there are " + String.join(", ", NAMES));
            }
        }
        file(given, "tokenFile");
        file(given, "knownHosts");
        text(given, "plain");
        text(given, "maxStreams");
        text(given, "limitRate");
        retries = (int) number(given, "retries", 4, 0, 100);
        schemes = schemes(given.get("schemes"));
        mounts = mounts(given.get("mounts"));
        progressSeconds = seconds(given, "progress", 10_000) / 1000;
        statMillis = seconds(given, "statTtl", 2_000);
        transfers = (int) number(given, "transfers", 256, 1, 10_000);
        partialDir = given.get("partialDir") == null ? null : path(given.get("partialDir").toString());
    }

    private void file(Map<?, ?> given, String name) {
        if (given.get(name) == null) {
            return;
        }
        String text = given.get(name).toString();
        Path path = path(text);
        if (name.equals("tokenFile") && !Files.isReadable(path)) {
            throw refused(name, text, "the path of a file that can be read");
        }
        engine.put(name, path.toString());
    }

    /** A path as users write it: `~/` is their home directory. */
    private static Path path(String text) {
        return Paths.get(text.startsWith("~/") ? System.getProperty("user.home") + text.substring(1) : text).toAbsolutePath();
    }

    /** The natives check the value. */
    private void text(Map<?, ?> given, String name) {
        if (given.get(name) != null) {
            engine.put(name, given.get(name).toString().replaceAll("\\s", ""));
        }
    }

    private static long number(Map<?, ?> given, String name, long otherwise, long least, long most) {
        Object value = given.get(name);
        if (value == null) {
            return otherwise;
        }
        try {
            long number = Long.parseLong(value.toString());
            if (number >= least && number <= most) {
                return number;
            }
        } catch (NumberFormatException error) {
            // It is refused below.
        }
        throw refused(name, value, "a whole number from " + least + " to " + most);
    }

    /** Milliseconds of a number of seconds, or of a duration as Nextflow has them. */
    private static long seconds(Map<?, ?> given, String name, long otherwise) {
        Object value = given.get(name);
        if (value == null) {
            return otherwise;
        }
        try {
            double milliseconds = value instanceof Number
                    ? ((Number) value).doubleValue() * 1000
                    : nextflow.util.Duration.of(value.toString()).toMillis();
            if (milliseconds >= 0) {
                return (long) milliseconds;
            }
        } catch (IllegalArgumentException error) {
            // It is refused below.
        }
        throw refused(name, value, "seconds, or a duration such as '10s'");
    }

    private static Set<String> schemes(Object value) {
        Set<String> found = new TreeSet<>();
        for (Object scheme : value == null ? List.of() : value instanceof Collection ? (Collection<?>) value : List.of(value)) {
            if (!SCHEMES.contains(scheme.toString())) {
                throw refused("schemes", scheme, "a list of " + String.join(", ", SCHEMES));
            }
            found.add(scheme.toString());
        }
        return found;
    }

    private static Map<String, Path> mounts(Object value) {
        Map<String, Path> found = new TreeMap<>((one, other) ->
                one.length() == other.length() ? one.compareTo(other) : other.length() - one.length());
        if (value != null && !(value instanceof Map)) {
            throw refused("mounts", value, "a map such as ['edt://host/data': '/mnt/data']");
        }
        for (Map.Entry<?, ?> mount : value == null ? Set.<Map.Entry<?, ?>>of() : ((Map<?, ?>) value).entrySet()) {
            Place place = Place.parse(mount.getKey().toString(), SCHEMES);
            if (place == null || !mount.getValue().toString().startsWith("/")) {
                throw refused("mounts", mount, "URLs that lead to absolute paths, such as ['edt://host/data': '/mnt/data']");
            }
            found.put(place.url(), Paths.get(mount.getValue().toString()));
        }
        return found;
    }

    private static IllegalArgumentException refused(String name, Object value, String expected) {
        return new IllegalArgumentException("could not use `" + value + "` for the option `edt." + name + "`: write " + expected);
    }
}
