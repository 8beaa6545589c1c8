// A client of Arrow Flight services for the tests, with Go's library.
//
//	flight-client list  ADDRESS
//	flight-client bytes ADDRESS PATH FILE
//	flight-client table ADDRESS PATH
//	flight-client put   ADDRESS FILE PATH
//
// The secret comes from EDT_TOKEN. A call that the service refuses ends with status 3, and its code on standard error.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

const rowBytes = 1 << 20

func main() {
	words := os.Args[1:]
	var err error
	switch {
	case len(words) == 2 && words[0] == "list":
		err = list(words[1])
	case len(words) == 4 && words[0] == "bytes":
		err = download(words[1], words[2], words[3])
	case len(words) == 3 && words[0] == "table":
		err = table(words[1], words[2])
	case len(words) == 4 && words[0] == "put":
		err = put(words[1], words[2], words[3])
	default:
		fmt.Fprintln(os.Stderr, "usage: flight-client list|bytes|table|put ADDRESS ...")
		os.Exit(2)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %s\n", status.Code(err), status.Convert(err).Message())
		os.Exit(3)
	}
}

// A client with a connection of its own, and a context with the secret.
func connect(address string) (flight.Client, context.Context, error) {
	client, err := flight.NewClientWithMiddleware(address, nil, nil, grpc.WithTransportCredentials(insecure.NewCredentials()))
	header := "Bearer " + os.Getenv("EDT_TOKEN")
	return client, metadata.AppendToOutgoingContext(context.Background(), "authorization", header), err
}

// A descriptor with a command that means a file as bytes or as a table.
func command(path, form string) *flight.FlightDescriptor {
	text, err := json.Marshal(map[string]string{"path": path, "as": form})
	if err != nil {
		panic(err) // Two texts always have a JSON form.
	}
	return &flight.FlightDescriptor{Type: flight.DescriptorCMD, Cmd: text}
}

func list(address string) error {
	client, ctx, err := connect(address)
	if err != nil {
		return err
	}
	defer client.Close()
	stream, err := client.ListFlights(ctx, &flight.Criteria{})
	if err != nil {
		return err
	}
	for {
		info, err := stream.Recv()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		fmt.Println(info.GetTotalBytes())
	}
}

// Reads all endpoints of a file at once, each over a connection of its own, into a file.
func download(address, path, target string) error {
	client, ctx, err := connect(address)
	if err != nil {
		return err
	}
	defer client.Close()
	info, err := client.GetFlightInfo(ctx, command(path, "bytes"))
	if err != nil {
		return err
	}
	file, err := os.Create(target)
	if err != nil {
		return err
	}
	defer file.Close()
	failures := make([]error, len(info.Endpoint))
	var group sync.WaitGroup
	for index, endpoint := range info.Endpoint {
		group.Add(1)
		go func() {
			defer group.Done()
			failures[index] = fetch(address, endpoint.Ticket, func(batch arrow.RecordBatch) error {
				offsets, data := batch.Column(0).(*array.Uint64), batch.Column(1).(*array.Binary)
				for row := range int(batch.NumRows()) {
					if _, err := file.WriteAt(data.Value(row), int64(offsets.Value(row))); err != nil {
						return err
					}
				}
				return nil
			})
		}()
	}
	group.Wait()
	for _, failure := range failures {
		if failure != nil {
			return failure
		}
	}
	fmt.Println(len(info.Endpoint))
	return nil
}

// Reads a table, and prints its number of rows and the sum of its column `id`.
func table(address, path string) error {
	client, ctx, err := connect(address)
	if err != nil {
		return err
	}
	defer client.Close()
	info, err := client.GetFlightInfo(ctx, command(path, "table"))
	if err != nil {
		return err
	}
	rows, sum := int64(0), int64(0)
	for _, endpoint := range info.Endpoint {
		err := fetch(address, endpoint.Ticket, func(batch arrow.RecordBatch) error {
			rows += batch.NumRows()
			for _, index := range batch.Schema().FieldIndices("id") {
				for _, value := range batch.Column(index).(*array.Int64).Int64Values() {
					sum += value
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	fmt.Println(rows, sum)
	return nil
}

// Gives each batch of one endpoint to a function.
func fetch(address string, ticket *flight.Ticket, take func(arrow.RecordBatch) error) error {
	client, ctx, err := connect(address)
	if err != nil {
		return err
	}
	defer client.Close()
	stream, err := client.DoGet(ctx, ticket)
	if err != nil {
		return err
	}
	reader, err := flight.NewRecordReader(stream)
	if err != nil {
		return err
	}
	defer reader.Release()
	for reader.Next() {
		if err := take(reader.RecordBatch()); err != nil {
			return err
		}
	}
	return reader.Err()
}

// Puts a file as bytes, and prints the last that the service said about it.
func put(address, source, path string) error {
	content, err := os.ReadFile(source)
	if err != nil {
		return err
	}
	client, ctx, err := connect(address)
	if err != nil {
		return err
	}
	defer client.Close()
	stream, err := client.DoPut(ctx)
	if err != nil {
		return err
	}
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "offset", Type: arrow.PrimitiveTypes.Uint64},
		{Name: "data", Type: arrow.BinaryTypes.Binary},
	}, nil)
	writer := flight.NewRecordWriter(stream, ipc.WithSchema(schema))
	writer.SetFlightDescriptor(command(path, "bytes"))
	for offset := 0; offset < len(content); offset += rowBytes {
		if err := writer.Write(row(schema, offset, content)); err != nil {
			return err
		}
	}
	if err := writer.Close(); err != nil {
		return err
	}
	if err := stream.CloseSend(); err != nil {
		return err
	}
	return replies(stream)
}

// One row of bytes as a batch.
func row(schema *arrow.Schema, offset int, content []byte) arrow.RecordBatch {
	builder := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer builder.Release()
	builder.Field(0).(*array.Uint64Builder).Append(uint64(offset))
	builder.Field(1).(*array.BinaryBuilder).Append(content[offset:min(offset+rowBytes, len(content))])
	return builder.NewRecordBatch()
}

// Reads what the service says until it is done; prints the last of it.
func replies(stream flight.FlightService_DoPutClient) error {
	last := []byte{}
	for {
		reply, err := stream.Recv()
		if err == io.EOF {
			fmt.Println(string(last))
			return nil
		}
		if err != nil {
			return err
		}
		last = reply.AppMetadata
	}
}
