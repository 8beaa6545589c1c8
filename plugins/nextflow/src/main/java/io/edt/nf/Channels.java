// Channels to read and to write one file of an endpoint.
package io.edt.nf;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.ClosedChannelException;
import java.nio.channels.FileChannel;
import java.nio.channels.NonWritableChannelException;
import java.nio.channels.SeekableByteChannel;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.PosixFilePermission;
import java.util.EnumSet;
import java.util.Set;
import java.util.UUID;

/** Both kinds. */
final class Channels {
    private Channels() {}

    /** Reads through a direct buffer, which the engine fills and reads ahead of. */
    static final class Reading implements SeekableByteChannel {
        private static final int BUFFER = 1 << 20;

        private final long file;
        private final long size;
        private final ByteBuffer buffer = ByteBuffer.allocateDirect(BUFFER);
        /** Where in the file the buffer begins. */
        private long begin;
        private long position;
        private boolean open = true;

        Reading(Engine engine, Place place) throws EdtException {
            long[] sizes = new long[1];
            file = engine.call(handle -> Native.openFile(handle, place.fields().bytes(), sizes));
            size = sizes[0];
            buffer.limit(0);
        }

        @Override
        public synchronized int read(ByteBuffer into) throws IOException {
            check();
            if (position >= size) {
                return -1;
            }
            if (position < begin || position >= begin + buffer.limit()) {
                // After an error nothing of the buffer counts.
                buffer.limit(0);
                int read = Native.read(file, position, buffer, BUFFER);
                buffer.limit(read);
                begin = position;
            }
            buffer.position((int) (position - begin));
            int count = Math.min(into.remaining(), buffer.remaining());
            ByteBuffer part = buffer.duplicate();
            part.limit(part.position() + count);
            into.put(part);
            position += count;
            return count;
        }

        @Override
        public int write(ByteBuffer from) {
            throw new NonWritableChannelException();
        }

        @Override
        public synchronized long position() throws IOException {
            check();
            return position;
        }

        @Override
        public synchronized SeekableByteChannel position(long to) throws IOException {
            check();
            position = to;
            return this;
        }

        @Override
        public long size() throws IOException {
            check();
            return size;
        }

        @Override
        public SeekableByteChannel truncate(long to) {
            throw new NonWritableChannelException();
        }

        @Override
        public synchronized boolean isOpen() {
            return open;
        }

        @Override
        public synchronized void close() {
            if (open) {
                open = false;
                Native.closeFile(file);
            }
        }

        private void check() throws ClosedChannelException {
            if (!open) {
                throw new ClosedChannelException();
            }
        }
    }

    /** Writes to a local file, which gets its name at the endpoint whole, when the channel is closed. */
    static final class Writing implements SeekableByteChannel {
        private final Engine engine;
        private final Place place;
        private final Uploads.Existing existing;
        private final Path file;
        private final FileChannel channel;
        private boolean open = true;
        /** Whether something could not be written: then the file is not what the caller meant. */
        private boolean broken;

        /** What is done to the local file. */
        private interface Change<T> {
            T run() throws IOException;
        }

        /** A file that replaces one has its permissions, and any other those that the process gives to new files. */
        Writing(Engine engine, Place place, Uploads.Existing existing, Entry replaced, boolean keeps) throws IOException {
            this.engine = engine;
            this.place = place;
            this.existing = existing;
            Path home = Files.createDirectories(engine.home().resolve("writing"));
            file = home.resolve(UUID.randomUUID().toString());
            try {
                if (keeps) {
                    engine.downloads.fetchAnew(place, file);
                } else {
                    Files.createFile(file);
                }
                channel = FileChannel.open(file, StandardOpenOption.WRITE, StandardOpenOption.READ);
                if (!keeps && replaced != null) {
                    permit(file, replaced.permissions());
                }
            } catch (IOException error) {
                Files.deleteIfExists(file);
                throw error;
            }
        }

        /** Gives a file permissions, and its owner that to read, for it is sent by its name; where a disk has none, it stays as it is. */
        private static void permit(Path file, Set<PosixFilePermission> permissions) {
            if (permissions == null) {
                return;
            }
            Set<PosixFilePermission> all = EnumSet.of(PosixFilePermission.OWNER_READ);
            all.addAll(permissions);
            try {
                Files.setPosixFilePermissions(file, all);
            } catch (IOException | UnsupportedOperationException error) {
                return;
            }
        }

        private synchronized <T> T change(Change<T> change) throws IOException {
            boolean done = false;
            try {
                T told = change.run();
                done = true;
                return told;
            } finally {
                broken |= !done;
            }
        }

        @Override
        public int read(ByteBuffer into) throws IOException {
            return channel.read(into);
        }

        @Override
        public int write(ByteBuffer from) throws IOException {
            return change(() -> channel.write(from));
        }

        @Override
        public long position() throws IOException {
            return channel.position();
        }

        @Override
        public SeekableByteChannel position(long to) throws IOException {
            change(() -> channel.position(to));
            return this;
        }

        @Override
        public long size() throws IOException {
            return channel.size();
        }

        @Override
        public SeekableByteChannel truncate(long to) throws IOException {
            change(() -> channel.truncate(to));
            return this;
        }

        @Override
        public boolean isOpen() {
            return channel.isOpen();
        }

        @Override
        public synchronized void close() throws IOException {
            if (!open) {
                return;
            }
            open = false;
            channel.close();
            if (broken) {
                Files.deleteIfExists(file);
                throw new IOException("could not write " + place.url() + ": something of it could not be written, so nothing was published");
            }
            publish();
        }

        private void publish() throws IOException {
            try {
                engine.uploads.put(file, place, existing, true);
            } catch (FileAlreadyExistsException error) {
                Files.deleteIfExists(file);
                throw error;
            } catch (IOException error) {
                throw new IOException(error.getMessage() + "; what was written is kept in " + file, error);
            }
            Files.deleteIfExists(file);
        }
    }
}
