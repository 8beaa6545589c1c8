package edt;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.arrow.flight.CallOption;
import org.apache.arrow.flight.Criteria;
import org.apache.arrow.flight.FlightClient;
import org.apache.arrow.flight.FlightDescriptor;
import org.apache.arrow.flight.FlightEndpoint;
import org.apache.arrow.flight.FlightInfo;
import org.apache.arrow.flight.FlightRuntimeException;
import org.apache.arrow.flight.FlightStream;
import org.apache.arrow.flight.Location;
import org.apache.arrow.flight.PutResult;
import org.apache.arrow.flight.SyncPutListener;
import org.apache.arrow.flight.Ticket;
import org.apache.arrow.flight.auth2.BearerCredentialWriter;
import org.apache.arrow.flight.grpc.CredentialCallOption;
import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.memory.RootAllocator;
import org.apache.arrow.vector.BigIntVector;
import org.apache.arrow.vector.UInt8Vector;
import org.apache.arrow.vector.VarBinaryVector;
import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.arrow.vector.types.pojo.ArrowType;
import org.apache.arrow.vector.types.pojo.Field;
import org.apache.arrow.vector.types.pojo.FieldType;
import org.apache.arrow.vector.types.pojo.Schema;

/**
 * A client of Arrow Flight services for the tests, with Java's library.
 *
 * <pre>
 * list  ADDRESS
 * bytes ADDRESS PATH FILE
 * table ADDRESS PATH
 * put   ADDRESS FILE PATH
 * </pre>
 *
 * The secret comes from EDT_TOKEN. A call that the service refuses ends with status 3, and its code on standard error.
 */
public final class FlightClientProgram {
  private static final int ROW_BYTES = 1 << 20;

  private final BufferAllocator allocator;
  private final Location location;
  private final CallOption credential =
      new CredentialCallOption(new BearerCredentialWriter(System.getenv().getOrDefault("EDT_TOKEN", "")));

  private FlightClientProgram(BufferAllocator allocator, String address) {
    this.allocator = allocator;
    int colon = address.lastIndexOf(':');
    location = Location.forGrpcInsecure(address.substring(0, colon), Integer.parseInt(address.substring(colon + 1)));
  }

  public static void main(String[] words) throws Exception {
    int status = 0;
    try (BufferAllocator allocator = new RootAllocator()) {
      FlightClientProgram program = new FlightClientProgram(allocator, words[1]);
      switch (words[0]) {
        case "list" -> program.list();
        case "bytes" -> program.download(words[2], Path.of(words[3]));
        case "table" -> program.table(words[2]);
        case "put" -> program.put(Path.of(words[2]), words[3]);
        default -> throw new IllegalArgumentException(words[0]);
      }
    } catch (FlightRuntimeException failure) {
      System.err.println(failure.status().code() + ": " + failure.getMessage());
      status = 3;
    }
    System.exit(status);
  }

  /** A client with a connection of its own. */
  private FlightClient connect() {
    return FlightClient.builder(allocator, location).build();
  }

  /** A descriptor with a command that means a file as bytes or as a table. */
  private static FlightDescriptor command(String path, String form) {
    String text = "{\"path\":\"" + path + "\",\"as\":\"" + form + "\"}";
    return FlightDescriptor.command(text.getBytes(StandardCharsets.UTF_8));
  }

  private void list() throws Exception {
    try (FlightClient client = connect()) {
      for (FlightInfo info : client.listFlights(Criteria.ALL, credential)) {
        System.out.println(info.getBytes());
      }
    }
  }

  /** What is done with the rows of a batch. */
  private interface Taker {
    void take(VectorSchemaRoot root) throws IOException;
  }

  /** Reads all endpoints of a file at once, each over a connection of its own, into a file. */
  private void download(String path, Path target) throws Exception {
    FlightInfo info;
    try (FlightClient client = connect()) {
      info = client.getInfo(command(path, "bytes"), credential);
    }
    ExecutorService threads = Executors.newFixedThreadPool(4);
    try (FileChannel file = FileChannel.open(target, StandardOpenOption.CREATE, StandardOpenOption.WRITE)) {
      List<Future<?>> parts = new ArrayList<>();
      for (FlightEndpoint endpoint : info.getEndpoints()) {
        parts.add(threads.submit(() -> { fetch(endpoint.getTicket(), root -> keep(root, file)); return null; }));
      }
      for (Future<?> part : parts) {
        part.get();
      }
    } catch (ExecutionException failure) {
      throw failure.getCause() instanceof FlightRuntimeException cause ? cause : failure;
    } finally {
      threads.shutdown();
    }
    System.out.println(info.getEndpoints().size());
  }

  private static void keep(VectorSchemaRoot root, FileChannel file) throws IOException {
    UInt8Vector offsets = (UInt8Vector) root.getVector("offset");
    VarBinaryVector data = (VarBinaryVector) root.getVector("data");
    for (int row = 0; row < root.getRowCount(); row++) {
      file.write(ByteBuffer.wrap(data.get(row)), offsets.get(row));
    }
  }

  /** Reads a table, and prints its number of rows and the sum of its column `id`. */
  private void table(String path) throws Exception {
    FlightInfo info;
    try (FlightClient client = connect()) {
      info = client.getInfo(command(path, "table"), credential);
    }
    long[] found = new long[2];
    for (FlightEndpoint endpoint : info.getEndpoints()) {
      fetch(endpoint.getTicket(), root -> {
        BigIntVector column = (BigIntVector) root.getVector("id");
        for (int row = 0; row < root.getRowCount(); row++) {
          found[1] += column.get(row);
        }
        found[0] += root.getRowCount();
      });
    }
    System.out.println(found[0] + " " + found[1]);
  }

  /** Gives each batch of one endpoint to a function. */
  private void fetch(Ticket ticket, Taker taker) throws Exception {
    try (FlightClient client = connect();
        FlightStream stream = client.getStream(ticket, credential)) {
      while (stream.next()) {
        if (stream.hasRoot()) {
          taker.take(stream.getRoot());
        }
      }
    }
  }

  /** Puts a file as bytes, and prints the last that the service said about it. */
  private void put(Path source, String path) throws Exception {
    byte[] content = Files.readAllBytes(source);
    Schema schema = new Schema(List.of(
        new Field("offset", FieldType.notNullable(new ArrowType.Int(64, false)), null),
        new Field("data", FieldType.notNullable(new ArrowType.Binary()), null)));
    try (FlightClient client = connect();
        VectorSchemaRoot root = VectorSchemaRoot.create(schema, allocator);
        SyncPutListener replies = new SyncPutListener()) {
      FlightClient.ClientStreamListener put = client.startPut(command(path, "bytes"), root, replies, credential);
      for (int offset = 0; offset < content.length; offset += ROW_BYTES) {
        int length = Math.min(ROW_BYTES, content.length - offset);
        root.clear();
        ((UInt8Vector) root.getVector("offset")).setSafe(0, offset);
        ((VarBinaryVector) root.getVector("data")).setSafe(0, content, offset, length);
        root.setRowCount(1);
        put.putNext();
      }
      put.completed();
      System.out.println(last(replies));
      put.getResult();
    }
  }

  private static String last(SyncPutListener replies) throws Exception {
    String said = "";
    PutResult reply;
    while ((reply = replies.read()) != null) {
      try (PutResult held = reply) {
        byte[] text = new byte[(int) held.getApplicationMetadata().readableBytes()];
        held.getApplicationMetadata().getBytes(0, text);
        said = new String(text, StandardCharsets.UTF_8);
      }
    }
    return said;
  }
}
