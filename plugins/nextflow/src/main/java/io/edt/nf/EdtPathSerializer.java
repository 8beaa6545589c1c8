// Keeps paths in the cache of tasks, for `-resume`.
package io.edt.nf;

import com.esotericsoftware.kryo.Kryo;
import com.esotericsoftware.kryo.Serializer;
import com.esotericsoftware.kryo.io.Input;
import com.esotericsoftware.kryo.io.Output;
import java.util.Map;
import java.util.Set;
import nextflow.util.SerializerRegistrant;

/** Absolute paths are kept as they are written. */
public final class EdtPathSerializer extends Serializer<EdtPath> implements SerializerRegistrant {
    @Override
    public void register(Map<Class, Object> serializers) {
        serializers.put(EdtPath.class, EdtPathSerializer.class);
    }

    @Override
    public void write(Kryo kryo, Output output, EdtPath path) {
        output.writeString(path.toAbsolutePath().toString());
    }

    /** Not by way of the mounts: a path that was one of edt stays one. */
    @Override
    public EdtPath read(Kryo kryo, Input input, Class<EdtPath> type) {
        String url = input.readString();
        return EdtPathFactory.provider().path(Place.parse(url, Set.of(url.substring(0, url.indexOf("://")))));
    }
}
