#!/bin/sh
# The load that cg1.csv was recorded of: eight clients. Each thinks for an exponential time,
# 0.9 s on average, and then has a request of an exponential amount of work. It ran in a
# control group without a limit on a machine with two CPUs that others used too, and was
# recorded with
#
#	pinfold sample /cg1 -o cg1.parquet --interval 100ms --samples 1000
#	pinfold trace convert cg1.parquet -o - | cut -d, -f1,2,4,5,14,15 > cg1.csv
client() {
	awk -v seed=$1 'BEGIN { srand(seed); for (;;) print -0.9 * log(1 - rand()), -1000000 * log(1 - rand()) }' |
		while read -r think work; do
			sleep $think
			awk -v n=$work 'BEGIN { for (i = 0; i < n; i++); }'
		done
}
for i in 1 2 3 4 5 6 7 8; do client $i & done
wait
