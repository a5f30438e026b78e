<?php
$cache = stream_socket_client('tcp://' . getenv('CACHE') . ':11211');
$ask = function (string $text) use ($cache): string { fwrite($cache, $text); return trim(fgets($cache)); };
if ($ask("incr visits 1\r\n") === 'NOT_FOUND') $ask("set visits 0 0 1\r\n1\r\n");
fwrite($cache, "get visits\r\n");
fgets($cache);
echo 'visits: ', trim(fgets($cache)), "\n";
