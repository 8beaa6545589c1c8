// Addresses: how they are written, what edt opens for them, and the names below that.
package io.edt.nf;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Set;

/** A URL taken apart: a root that edt opens, and a path below it with its percent encoding undone. */
final class Place {
    private static final Set<String> SERVICES =
            Set.of("s3", "gs", "az", "http", "https", "webdav", "webdavs", "sftp", "ftp", "ftps");
    private static final Set<String> KEYS = Set.of("s3", "gs", "az");
    private static final String SAFE = "/-._~!$&'()*+,;=:@";
    /** Nextflow looks for patterns in what paths show. */
    private static final String PATTERNS = "?[]{}\\";

    /** The scheme as the user writes it. */
    final String scheme;
    final String authority;
    /** Names joined by slashes, without one at the begin or end. */
    final String path;
    /** A web address behind its authority, as it was written, if the path does not tell it: with its query, if it has one; else null. */
    private final String written;

    private Place(String scheme, String authority, String path, String written) {
        this.scheme = scheme;
        this.authority = authority;
        this.path = path;
        this.written = written;
    }

    /** Takes a URL apart; null if edt does not claim it. `foreign` are the schemes of others that it may claim. */
    static Place parse(String url, Set<String> foreign) {
        int colon = url.indexOf("://");
        if (colon < 0 || !isClaimed(url.substring(0, colon), foreign)) {
            return null;
        }
        String scheme = url.substring(0, colon);
        String rest = url.substring(colon + 3);
        int slash = rest.indexOf('/');
        String authority = slash < 0 ? rest : rest.substring(0, slash);
        if (authority.isEmpty()) {
            throw new IllegalArgumentException("could not use `" + url + "`: it names no host; write edt://host/path");
        }
        String path = slash < 0 ? "" : rest.substring(slash + 1);
        String tail = "";
        if (isWeb(core(scheme)) && path.indexOf('?') >= 0) {
            tail = path.substring(path.indexOf('?'));
            path = path.substring(0, path.indexOf('?'));
        }
        if (core(scheme).startsWith("edt") && authority.endsWith(":7632")) {
            authority = authority.substring(0, authority.length() - 5);
        }
        String names = names(KEYS.contains(core(scheme)) ? path : decoded(path), url);
        boolean alone = isWeb(core(scheme)) && (!tail.isEmpty() || saysMore(path));
        return new Place(scheme, authority, names, alone ? kept(path, names) + tail : null);
    }

    /** Whether web servers may tell a path from its names: by slashes in them or without one between, or by what S3 takes for a space. */
    private static boolean saysMore(String path) {
        boolean slashes = path.startsWith("/") || path.contains("//") || path.toLowerCase(Locale.ROOT).contains("%2f");
        return slashes || path.indexOf('+') >= 0 || path.indexOf(';') >= 0;
    }

    /** A path as it was written, with what cannot stand in a URL encoded; one that goes up is told by its names. */
    private static String kept(String path, String names) {
        for (String name : path.split("/")) {
            if (decoded(name).equals(".") || decoded(name).equals("..")) {
                return encoded(names, "");
            }
        }
        return encoded(path.replaceAll("%(?![0-9A-Fa-f]{2})", "%25"), "%");
    }

    /** A place at the same root. */
    Place at(String path) {
        return new Place(scheme, authority, path, null);
    }

    /** Whether it is one web address that its path does not tell. */
    boolean isAlone() {
        return written != null;
    }

    /** What edt opens: the root, or a whole address that is alone. */
    String root() {
        return core(scheme) + "://" + authority + "/" + (isAlone() ? written : "");
    }

    /** The path below what edt opens. */
    String below() {
        return isAlone() ? "" : path;
    }

    /** The URL as edt takes it. */
    String endpoint() {
        return core(scheme) + "://" + authority + "/" + behind("");
    }

    /** The root as the user writes it. */
    String shownRoot() {
        return scheme + "://" + authority;
    }

    /** The URL as the user writes it. */
    String url() {
        return shownRoot() + "/" + behind(isWeb() ? "" : PATTERNS);
    }

    /** The URL with all encoded that RFC 3986 wants to be. */
    String uri() {
        return shownRoot() + "/" + (isWeb() ? behind("") : encoded(path, ""));
    }

    /** The root and the path, as the natives take them. */
    Fields fields() {
        return new Fields(root(), below());
    }

    /** Whether links are followed by the one who reads. */
    boolean isServer() {
        return core(scheme).startsWith("edt");
    }

    /** Whether directories are there only while something is below them. */
    boolean hasKeys() {
        return KEYS.contains(core(scheme));
    }

    /** Whether directories cannot be listed reliably. */
    boolean isWeb() {
        return isWeb(core(scheme));
    }

    /** The names of a path, with empty ones and `.` left out. */
    static String names(String path, String shown) {
        List<String> names = new ArrayList<>();
        for (String name : path.split("/")) {
            if (name.equals("..")) {
                if (names.isEmpty()) {
                    throw new IllegalArgumentException("could not use `" + shown + "`: it leaves its root");
                }
                names.remove(names.size() - 1);
            } else if (!name.isEmpty() && !name.equals(".")) {
                names.add(name);
            }
        }
        return String.join("/", names);
    }

    private static boolean isClaimed(String scheme, Set<String> foreign) {
        boolean behind = scheme.startsWith("edt+") && SERVICES.contains(scheme.substring(4));
        return scheme.equals("edt") || scheme.equals("edts") || behind || foreign.contains(scheme);
    }

    private static boolean isWeb(String scheme) {
        return scheme.equals("http") || scheme.equals("https");
    }

    private static String core(String scheme) {
        return scheme.startsWith("edt+") ? scheme.substring(4) : scheme;
    }

    /** What stands behind the authority. */
    private String behind(String besides) {
        if (isAlone()) {
            return written;
        }
        if (KEYS.contains(core(scheme))) {
            return path;
        }
        String encoded = encoded(path, besides);
        return isWeb() ? encoded.replace("+", "%2B").replace(";", "%3B") : encoded;
    }

    private static String encoded(String text, String besides) {
        StringBuilder encoded = new StringBuilder();
        for (byte one : text.getBytes(StandardCharsets.UTF_8)) {
            char character = (char) (one & 0xff);
            boolean letter = character < 128 && Character.isLetterOrDigit(character);
            boolean plain = letter || SAFE.indexOf(character) >= 0 || besides.indexOf(character) >= 0;
            encoded.append(plain ? String.valueOf(character) : String.format("%%%02X", (int) character));
        }
        return encoded.toString();
    }

    /** Undoes percent encoding; what is none stays as it is. */
    static String decoded(String text) {
        if (text.indexOf('%') < 0) {
            return text;
        }
        byte[] given = text.getBytes(StandardCharsets.UTF_8);
        byte[] bytes = new byte[given.length];
        int length = 0;
        for (int at = 0; at < given.length; at++) {
            int high = at + 2 < given.length && given[at] == '%' ? Character.digit(given[at + 1], 16) : -1;
            int low = high < 0 ? -1 : Character.digit(given[at + 2], 16);
            bytes[length++] = low < 0 ? given[at] : (byte) (high * 16 + low);
            at += low < 0 ? 0 : 2;
        }
        return new String(bytes, 0, length, StandardCharsets.UTF_8);
    }
}
