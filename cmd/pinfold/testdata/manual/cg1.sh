#!/bin/sh
# The load that cg1.csv was recorded of: eight clients. Each thinks for an exponential time,
# 0.9 s on average, and then has a request of an exponential amount of work.
client() {
	awk -v seed=$1 'BEGIN { srand(seed); for (;;) print -0.9 * log(1 - rand()), -1000000 * log(1 - rand()) }' |
		while read -r think work; do
			sleep $think
			awk -v n=$work 'BEGIN { for (i = 0; i < n; i++); }'
		done
}
for i in 1 2 3 4 5 6 7 8; do client $i & done
wait
