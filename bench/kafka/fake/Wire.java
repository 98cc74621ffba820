package fake;

import java.io.DataInputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.requests.RequestHeader;

/** Frames of Kafka's protocol: four bytes of length, a header, a body. */
final class Wire {
    private Wire() {}

    static byte[] read(DataInputStream in) throws IOException {
        byte[] bytes = new byte[in.readInt()];
        in.readFully(bytes);
        return bytes;
    }

    static byte[] request(ApiKeys api, short version, int sender, int number, ApiMessage body) {
        RequestHeader header = new RequestHeader(api, version, String.valueOf(sender), number);
        ByteBuffer bytes = MessageUtil.toByteBuffer(header.data(), header.headerVersion());
        return frame(bytes, body, version);
    }

    static byte[] response(RequestHeader request, ApiMessage body) {
        var header = request.toResponseHeader();
        ByteBuffer bytes = MessageUtil.toByteBuffer(header.data(), header.headerVersion());
        return frame(bytes, body, request.apiVersion());
    }

    private static byte[] frame(ByteBuffer header, ApiMessage body, short version) {
        ByteBuffer bytes = MessageUtil.toByteBuffer(body, version);
        int size = header.remaining() + bytes.remaining();
        return ByteBuffer.allocate(4 + size).putInt(size).put(header).put(bytes).array();
    }
}
