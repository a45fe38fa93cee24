package workload

import (
	"math"
	"math/big"
	"runtime"
	"runtime/debug"
	"sync"
)

// guard is the number of additional digits in the computation. The error of each term is below one
// unit of the last digit, and there are fewer than 10^7 terms.
const guard = 10

// Pi returns pi with the given number of digits after the decimal point, by Machin's formula
//
//	pi = 16 arctan(1/5) - 4 arctan(1/239),  arctan(1/x) = sum of (-1)^k / ((2k+1) x^(2k+1))
//
// in fixed-point arithmetic. Thread i of n sums the terms k = i, i+n, i+2n, ... of both series.
// There are faster methods; this one keeps any number of threads equally busy.
//
// Each goroutine has a kernel thread of its own, as in the original program, and all of them may
// run at the same time. They start together.
func Pi(digits, threads int) string {
	one := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(digits+guard)), nil)
	sums := make([]*big.Int, threads)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(threads))
	defer debug.SetMaxThreads(debug.SetMaxThreads(4*threads + 1000)) // with spare threads for the runtime
	var group, ready sync.WaitGroup
	ready.Add(threads)
	for i := range threads {
		group.Go(func() {
			runtime.LockOSThread() // never unlocked, so the thread ends with the goroutine
			ready.Done()
			ready.Wait()
			sum := partial(one, 5, i, threads)
			sum.Mul(sum, big.NewInt(4))
			sum.Sub(sum, partial(one, 239, i, threads))
			sums[i] = sum.Mul(sum, big.NewInt(4))
		})
	}
	group.Wait()
	pi := new(big.Int)
	for _, sum := range sums {
		pi.Add(pi, sum)
	}
	pi.Quo(pi, new(big.Int).Exp(big.NewInt(10), big.NewInt(guard), nil))
	text := pi.String()
	return text[:1] + "." + text[1:]
}

// partial returns the sum of the terms first, first+step, first+2*step, ... of arctan(1/x), scaled
// by one.
func partial(one *big.Int, x int64, first, step int) *big.Int {
	terms := int(float64(one.BitLen())/(2*math.Log2(float64(x)))) + 1 // the next term is below one unit
	sum, term := new(big.Int), new(big.Int)
	power := new(big.Int).Exp(big.NewInt(x), big.NewInt(int64(2*first+1)), nil)
	stride := new(big.Int).Exp(big.NewInt(x), big.NewInt(int64(2*step)), nil)
	for k := first; k < terms; k += step {
		term.Mul(power, big.NewInt(int64(2*k+1)))
		term.Quo(one, term)
		if k%2 == 0 {
			sum.Add(sum, term)
		} else {
			sum.Sub(sum, term)
		}
		power.Mul(power, stride)
	}
	return sum
}
