-- Answers /cpu?loops=N after N iterations of a loop that uses only CPU time.
function handle(r)
	local loops = tonumber(string.match(r.args or "", "^loops=(%d+)$"))
	if not loops then
		return 400
	end
	local x = 1
	for _ = 1, loops do
		x = (x * 1103515245 + 12345) % 2147483648
	end
	r.content_type = "text/plain"
	r:puts(x, "\n")
	return apache2.OK
end
