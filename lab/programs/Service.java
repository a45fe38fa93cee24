import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.Executors;

/** A web service: answers /?n=N after sorting and adding up N orders. */
final class Service {
    static long work(int orders) {
        long sum = 0;
        for (int i = 0; i < orders; i++) {
            Map<String, Integer> lines = new TreeMap<>();
            for (int j = 0; j < 32; j++) {
                lines.merge("article " + (i * 31 + j * 17) % 97, j, Integer::sum);
            }
            for (Map.Entry<String, Integer> line : lines.entrySet()) {
                sum = sum * 31 + line.getKey().hashCode() + line.getValue();
            }
        }
        return sum;
    }

    public static void main(String[] args) throws Exception {
        HttpServer server = HttpServer.create(new InetSocketAddress(args[0], Integer.parseInt(args[1])), 1024);
        server.setExecutor(Executors.newFixedThreadPool(16));
        server.createContext("/", exchange -> {
            int orders = Integer.parseInt(exchange.getRequestURI().getQuery().substring("n=".length()));
            byte[] answer = Long.toString(work(orders)).getBytes(StandardCharsets.US_ASCII);
            exchange.sendResponseHeaders(200, answer.length);
            exchange.getResponseBody().write(answer);
            exchange.close();
        });
        server.start();
    }
}
