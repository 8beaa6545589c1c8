// Texts in one block of bytes, each ended by a NUL: how they cross the boundary to the natives.
package io.edt.nf;

import java.nio.charset.StandardCharsets;

/** Fields that are written, or read one after another. */
final class Fields {
    private final StringBuilder written = new StringBuilder();
    private final String text;
    private int at;

    /** An empty block to write, with these fields. */
    Fields(String... fields) {
        this("", 0);
        for (String field : fields) {
            add(field);
        }
    }

    private Fields(String text, int at) {
        this.text = text;
        this.at = at;
    }

    /** A block to read. */
    static Fields of(byte[] block) {
        return new Fields(new String(block, StandardCharsets.UTF_8), 0);
    }

    Fields add(String field) {
        if (field.indexOf('\0') >= 0) {
            throw new IllegalArgumentException("a name holds a NUL: " + field.replace('\0', ' '));
        }
        written.append(field).append('\0');
        return this;
    }

    byte[] bytes() {
        return written.toString().getBytes(StandardCharsets.UTF_8);
    }

    boolean more() {
        return at < text.length();
    }

    String next() {
        int end = text.indexOf('\0', at);
        String field = text.substring(at, end);
        at = end + 1;
        return field;
    }

    long number() {
        return Long.parseLong(next());
    }
}
