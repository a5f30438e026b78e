import socket, socketserver
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(open("/etc/machine-id").read().encode())

class Server(ThreadingHTTPServer):
    address_family = socket.AF_INET6

Server(("::", 9000), Handler).serve_forever()
