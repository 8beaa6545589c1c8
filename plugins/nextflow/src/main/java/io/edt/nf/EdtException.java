// What failed in edt: the kind of failure, what could not be done, why, what to do, and whether a retry can help.
package io.edt.nf;

import java.io.IOException;
import java.nio.file.AccessDeniedException;
import java.nio.file.DirectoryNotEmptyException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.NoSuchFileException;

/** The only exception that the natives throw. */
public final class EdtException extends IOException {
    private static final long serialVersionUID = 1;

    private final String code;
    private final String hint;
    private final boolean transientFailure;

    /** Called by the natives; `cause` and `hint` may be null. */
    public EdtException(String code, String what, String cause, String hint, boolean transientFailure) {
        super(what + (empty(cause) ? "" : ": " + cause) + (empty(hint) ? "" : " (hint: " + hint + ")"));
        this.code = code;
        this.hint = empty(hint) ? null : hint;
        this.transientFailure = transientFailure;
    }

    /** The kind of the failure, for example `not-found`. */
    public String code() {
        return code;
    }

    /** What to do about it, or null. */
    public String hint() {
        return hint;
    }

    /** Whether a retry can help. */
    public boolean isTransient() {
        return transientFailure;
    }

    /** Whether a later attempt may go on where this one ended: also one that comes once somebody has made room, or mended a disk. */
    boolean leavesPart() {
        return transientFailure || code.equals("no-space") || code.equals("io");
    }

    /** The same as the exception that Java has for it, where callers decide by that. */
    IOException about(Object path) {
        IOException known = known(String.valueOf(path));
        if (known != null) {
            known.initCause(this);
        }
        return known == null ? this : known;
    }

    private IOException known(String path) {
        switch (code) {
            case "not-found":
                return new NoSuchFileException(path);
            case "already-exists":
                return new FileAlreadyExistsException(path);
            case "permission-denied":
                return new AccessDeniedException(path, null, getMessage());
            default:
                return null;
        }
    }

    /** The same for a directory that is removed: what stands in the way is in it. */
    IOException aboutRemoving(Object path) {
        return code.equals("already-exists") ? new DirectoryNotEmptyException(String.valueOf(path)) : about(path);
    }

    private static boolean empty(String text) {
        return text == null || text.isEmpty();
    }
}
