package programs

import "strconv"

// FFmpeg returns the arguments of an endless encoding job: a generated video of 1280 x 720 pixels
// is encoded to H.264 as fast as the CPUs permit and discarded. The encoder has the given number of
// threads, at least 1. More than 1 are joined by a thread that makes the video and one that looks
// ahead, which are busy as well. The job reads and writes no files. SIGTERM ends it with status
// 255.
func FFmpeg(threads int) []string {
	return []string{
		"-nostdin", "-hide_banner", "-loglevel", "error",
		"-filter_threads", "1", "-f", "lavfi", "-i", "testsrc2=size=1280x720:rate=30",
		"-codec:v", "libx264", "-preset", "medium", "-threads", strconv.Itoa(threads),
		"-f", "null", "-",
	}
}
