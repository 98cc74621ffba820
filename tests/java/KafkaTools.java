import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.stream.Stream;
import org.apache.kafka.common.utils.Exit;
import org.apache.log4j.Level;
import org.apache.log4j.Logger;

/**
 * Runs Kafka's command-line tools one after the other in one Java process, because starting one
 * takes a second.
 *
 * <p>A line of standard input is the class of a tool and its arguments in base64, separated by
 * spaces. The answer is one line: the exit code, and standard output and error in base64. The tools
 * print to the same two streams throughout, because Scala keeps the stream that it saw first.
 */
public final class KafkaTools {
  private static final ByteArrayOutputStream OUT = new ByteArrayOutputStream();
  private static final ByteArrayOutputStream ERR = new ByteArrayOutputStream();

  /** The answer of a tool, once it has ended. A process would print nothing afterwards. */
  private static String answer;

  public static void main(String[] args) throws Exception {
    PrintStream answers = System.out;
    System.setOut(new PrintStream(OUT, true, StandardCharsets.UTF_8));
    System.setErr(new PrintStream(ERR, true, StandardCharsets.UTF_8));
    // Warnings about dead brokers depend on the order in which brokers are tried.
    Logger.getRootLogger().setLevel(Level.OFF);
    Exit.setExitProcedure((code, message) -> exit(code));
    Exit.setHaltProcedure((code, message) -> exit(code));
    var input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = input.readLine(); line != null; line = input.readLine()) {
      String[] words = line.split(" ");
      String[] arguments = Stream.of(words).skip(1).map(KafkaTools::decoded).toArray(String[]::new);
      OUT.reset();
      ERR.reset();
      answer = null;
      run(Class.forName(words[0]), arguments);
      answers.println(answer);
    }
  }

  /** Runs a tool as Java would in a separate process. */
  private static void run(Class<?> tool, String[] args) throws ReflectiveOperationException {
    try {
      tool.getMethod("main", String[].class).invoke(null, (Object) args);
      end(0);
    } catch (InvocationTargetException error) {
      if (answer == null) {
        System.err.print("Exception in thread \"main\" ");
        error.getCause().printStackTrace();
        end(1);
      }
    }
  }

  /** Ends a tool. It may catch the exception, but its answer is there. */
  private static void exit(int code) {
    end(code);
    throw new Error("the tool has ended");
  }

  private static void end(int code) {
    if (answer == null) {
      answer = code + " " + encoded(OUT) + " " + encoded(ERR);
    }
  }

  private static String decoded(String word) {
    return new String(Base64.getDecoder().decode(word), StandardCharsets.UTF_8);
  }

  private static String encoded(ByteArrayOutputStream buffer) {
    return Base64.getEncoder().encodeToString(buffer.toByteArray());
  }
}
