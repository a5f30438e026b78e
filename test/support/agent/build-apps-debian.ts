/** Small apps whose builds need Debian packages in addition to the builder images. */
import type { App } from './build-apps.ts'

export const debianApps: Readonly<Record<string, App>> = {
  'zsh from Debian': {
    registry: 'http://deb.debian.org/debian/dists/trixie/Release',
    files: {
      'start.sh': `#!/bin/zsh
exec node -e "require('http').createServer((q, r) => r.end('hello from zsh $ZSH_VERSION')).listen(process.env.PORT)"
`,
    },
    log: /^install-packages  ?zsh: took /m,
    answer: /^hello from zsh 5\./,
  },
  'Psycopg compiled against libpq': {
    registry: 'https://pypi.org/simple/psycopg2/',
    files: {
      'main.py': `import os
from http.server import BaseHTTPRequestHandler, HTTPServer
import psycopg2

class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(f"hello from libpq {psycopg2.__libpq_version__}".encode())

HTTPServer(("0.0.0.0", int(os.environ["PORT"])), Handler).serve_forever()
`,
      'requirements.txt': 'psycopg2\n',
    },
    log: /^libraries of the image: .*libpq\.so\.5/m,
    answer: /^hello from libpq 1\d/,
  },
  'Ruby with a gem of its own': {
    registry: 'http://deb.debian.org/debian/dists/trixie/Release',
    files: {
      Gemfile: `source 'https://rubygems.org'\ngem 'shop', path: 'libs/shop'\n`,
      'libs/shop/shop.gemspec':
        "Gem::Specification.new do |s|\n  s.name = 'shop'\n  s.version = '1.0'\n  s.summary = 'x'\n  s.authors = ['x']\n  s.files = ['lib/shop.rb']\nend\n",
      'libs/shop/lib/shop.rb': "WORD = 'hello'\n",
      'app.rb': `require 'bundler/setup'
require 'shop'
require 'socket'
server = TCPServer.new('0.0.0.0', ENV.fetch('PORT').to_i)
loop do
  client = server.accept
  client.readpartial(4096)
  text = "#{WORD} from ruby #{RUBY_VERSION} #{File.read('/proc/self/maps').include?('libjemalloc')}"
  client.write("HTTP/1.1 200 OK\\r\\nContent-Length: #{text.bytesize}\\r\\nConnection: close\\r\\n\\r\\n#{text}")
  client.close
end
`,
    },
    log: /^using ruby 3\.3.* of Debian$/m,
    answer: /^hello from ruby 3\.3\.\d+ true$/,
  },
  'Elixir without dependencies': {
    registry: 'http://deb.debian.org/debian/dists/trixie/Release',
    files: {
      'mix.exs': `defmodule Shop.MixProject do
  use Mix.Project
  def project, do: [app: :shop, version: "1.0.0", elixir: "~> 1.14"]
  def application, do: [extra_applications: [:logger, :inets], mod: {Shop, []}]
end
`,
      'lib/shop.ex': `defmodule Shop do
  use Application
  def start(_type, _args), do: Supervisor.start_link([{Task, &listen/0}], strategy: :one_for_one)
  defp listen do
    {:ok, server} = :gen_tcp.listen(String.to_integer(System.fetch_env!("PORT")), [:binary, active: false, reuseaddr: true])
    accept(server)
  end
  defp accept(server) do
    {:ok, client} = :gen_tcp.accept(server)
    {:ok, _} = :gen_tcp.recv(client, 0)
    text = "hello from Elixir " <> System.version()
    :gen_tcp.send(client, "HTTP/1.1 200 OK\\r\\nContent-Length: #{byte_size(text)}\\r\\nConnection: close\\r\\n\\r\\n" <> text)
    :gen_tcp.close(client)
    accept(server)
  end
end
`,
    },
    log: /^mix release: took /m,
    answer: /^hello from Elixir 1\.18/,
  },
  'Composer with a package of its own': {
    images: ['php'],
    registry: 'http://deb.debian.org/debian/dists/trixie/Release',
    files: {
      'composer.json': JSON.stringify({
        repositories: [{ type: 'path', url: 'libs/shop', options: { symlink: false } }, { 'packagist.org': false }],
        require: { php: '^8.2', 'a/shop': '*' },
      }),
      'libs/shop/composer.json': JSON.stringify({
        name: 'a/shop',
        version: '1.0.0',
        autoload: { files: ['shop.php'] },
      }),
      'libs/shop/shop.php': "<?php function word() { return 'hello'; }",
      'index.php': "<?php require 'vendor/autoload.php'; echo word(), ' from php ', PHP_VERSION;",
    },
    log: /^composer install .*: took /m,
    answer: /^hello from php 8\.4/,
  },
}
