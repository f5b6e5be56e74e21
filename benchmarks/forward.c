/* Forwards messages unchanged with libmosquitto, and acknowledges each after it has been forwarded:
 * forward SOURCE_PORT SINK_PORT QOS. Built by benchmarks/contestants.py. */
#include <mosquitto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct mosquitto *out;
static int qos;

static void pass_on(struct mosquitto *source, void *unused, const struct mosquitto_message *message)
{
    char topic[256];
    (void)source, (void)unused;
    snprintf(topic, sizeof topic, "private/%s", message->topic + strlen("meters/"));
    mosquitto_publish(out, NULL, topic, message->payloadlen, message->payload, qos, false);
}

static struct mosquitto *connected(const char *port)
{
    struct mosquitto *made = mosquitto_new(NULL, true, NULL);
    mosquitto_int_option(made, MOSQ_OPT_TCP_NODELAY, 1);
    mosquitto_max_inflight_messages_set(made, 0);
    if (mosquitto_connect(made, "127.0.0.1", atoi(port), 600) != MOSQ_ERR_SUCCESS)
        exit(1);
    return made;
}

int main(int count, char **arguments)
{
    if (count != 4)
        return 2;
    qos = atoi(arguments[3]);
    mosquitto_lib_init();
    out = connected(arguments[2]);
    mosquitto_loop_start(out);
    struct mosquitto *source = connected(arguments[1]);
    mosquitto_message_callback_set(source, pass_on);
    mosquitto_subscribe(source, NULL, "meters/+/power", qos);
    return mosquitto_loop_forever(source, -1, 1);
}
