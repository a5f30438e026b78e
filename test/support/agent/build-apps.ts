/** A small app for each language, with dependencies from the real package registries. */
import type { ToolImage } from '../../../src/agent/build/tool-images.ts'
import { debianApps } from './build-apps-debian.ts'
import type { SourceFiles } from './build-real.ts'

export interface App {
  /** URL of a file in the registry; if it cannot be reached, the test is skipped. */
  readonly registry?: string
  /** Builder images that the build needs. The first build that needs one makes it, which takes minutes. */
  readonly images?: readonly ToolImage[]
  readonly files: SourceFiles
  readonly log: RegExp
  readonly answer: RegExp
}

/** A Java app: a JAR that loads its dependency from the same directory. */
const javaApp: SourceFiles = {
  'pom.xml': `<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>shop</groupId><artifactId>shop</artifactId><version>1</version>
  <properties>
    <maven.compiler.source>17</maven.compiler.source>
    <maven.compiler.target>17</maven.compiler.target>
    <project.build.sourceEncoding>UTF-8</project.build.sourceEncoding>
  </properties>
  <dependencies>
    <dependency><groupId>com.google.code.gson</groupId><artifactId>gson</artifactId><version>2.11.0</version></dependency>
  </dependencies>
  <build><plugins>
    <plugin><artifactId>maven-dependency-plugin</artifactId><executions><execution>
      <phase>prepare-package</phase><goals><goal>copy-dependencies</goal></goals>
      <configuration><outputDirectory>target/lib</outputDirectory></configuration>
    </execution></executions></plugin>
    <plugin><artifactId>maven-jar-plugin</artifactId><configuration><archive><manifest>
      <mainClass>Shop</mainClass><addClasspath>true</addClasspath><classpathPrefix>lib/</classpathPrefix>
    </manifest></archive></configuration></plugin>
  </plugins></build>
</project>
`,
  'src/main/java/Shop.java': `import com.google.gson.Gson;
import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;
import java.util.Map;

public class Shop {
  public static void main(String[] args) throws Exception {
    int port = Integer.parseInt(System.getenv("PORT"));
    HttpServer server = HttpServer.create(new InetSocketAddress("0.0.0.0", port), 0);
    byte[] answer = new Gson().toJson(Map.of("hello", "java")).getBytes();
    server.createContext("/", exchange -> {
      exchange.sendResponseHeaders(200, answer.length);
      exchange.getResponseBody().write(answer);
      exchange.close();
    });
    server.start();
  }
}
`,
}

export const apps: Readonly<Record<string, App>> = {
  ...debianApps,
  'Node with Express': {
    registry: 'https://registry.npmjs.org/express/latest',
    files: {
      'package.json': JSON.stringify({
        name: 'shop',
        scripts: { start: 'node a.js' },
        // Selects the newest Node.js release.
        engines: { node: '>=24' },
        dependencies: { express: '^5' },
      }),
      'a.js': `require('express')().get('/', (q, r) => r.send('hello from ' + process.version)).listen(process.env.PORT)`,
    },
    log: /^npm install: took \d+ s$/m,
    answer: /^hello from v(?:2[4-9]|[3-9]\d)\./,
  },
  'Python with FastAPI': {
    registry: 'https://pypi.org/simple/fastapi/',
    files: {
      'main.py':
        'import sys\nfrom fastapi import FastAPI\n\napp = FastAPI()\n\n\n@app.get("/")\ndef top():\n    return sys.version\n',
      'requirements.txt': 'fastapi\nuvicorn\n',
    },
    log: /^using Python 3\.\d+/m,
    answer: /^"3\./,
  },
  'Go with a current toolchain': {
    registry: 'https://proxy.golang.org/golang.org/toolchain/@v/list',
    files: {
      'go.mod': 'module example.com/shop\n\ngo 1.26\n\nrequire github.com/go-chi/chi/v5 v5.2.1\n',
      'go.sum':
        'github.com/go-chi/chi/v5 v5.2.1 h1:KOIHODQj58PmL80G2Eak4WdvUzjSJSm0vG72crDCqb8=\n' +
        'github.com/go-chi/chi/v5 v5.2.1/go.mod h1:L2yAIGWB3H+phAw1NxKwWM+7eUH/lU8pOMm5hHcoops=\n',
      'main.go': `package main

import (
	"net/http"
	"os"
	"runtime"

	"github.com/go-chi/chi/v5"
)

func main() {
	router := chi.NewRouter()
	router.Get("/", func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("hello from " + runtime.Version())) })
	http.ListenAndServe(":"+os.Getenv("PORT"), router)
}
`,
    },
    log: /^using go version go1\.26\./m,
    answer: /^hello from go1\.26\./,
  },
  'Rust with tiny_http': {
    registry: 'https://static.rust-lang.org/rustup/release-stable.toml',
    files: {
      'Cargo.toml':
        '[package]\nname = "shop"\nversion = "0.1.0"\nedition = "2021"\n\n[dependencies]\ntiny_http = "0.12"\n',
      'src/main.rs': `fn main() {
    let port = std::env::var("PORT").unwrap();
    let server = tiny_http::Server::http(format!("0.0.0.0:{port}")).unwrap();
    for request in server.incoming_requests() {
        let _ = request.respond(tiny_http::Response::from_string("hello from Rust"));
    }
}
`,
    },
    log: /^cargo build --release: took /m,
    answer: /^hello from Rust$/,
  },
  'CMake with C++': {
    registry: 'https://pypi.org/simple/cmake/',
    files: {
      'CMakeLists.txt': 'cmake_minimum_required(VERSION 3.20)\nproject(shop CXX)\nadd_executable(shop main.cc)\n',
      'main.cc': `#include <cstdlib>
#include <iostream>
#include <netinet/in.h>
#include <string>
#include <unistd.h>

int main() {
  int server = socket(AF_INET6, SOCK_STREAM, 0);
  sockaddr_in6 at{};
  at.sin6_family = AF_INET6;
  at.sin6_port = htons(std::stoi(std::getenv("PORT")));
  if (bind(server, reinterpret_cast<sockaddr *>(&at), sizeof at) != 0 || listen(server, 8) != 0) return 1;
  const std::string answer = "HTTP/1.1 200 OK\\r\\nContent-Length: 14\\r\\nConnection: close\\r\\n\\r\\nhello from C++";
  for (;;) {
    int client = accept(server, nullptr, nullptr);
    char request[4096];
    if (read(client, request, sizeof request) > 0) (void)!write(client, answer.data(), answer.size());
    close(client);
  }
}
`,
    },
    log: /^cmake --build build: took /m,
    answer: /^hello from C\+\+$/,
  },
  'Deno with TypeScript': {
    registry: 'https://registry.npmjs.org/deno/latest',
    files: {
      'deno.json': '{}',
      'main.ts': `const port: number = Number(Deno.env.get('PORT'))
Deno.serve({ port, hostname: '::' }, () => new Response('hello from Deno ' + Deno.version.deno))
`,
    },
    log: /^using deno 2\./m,
    answer: /^hello from Deno 2\./,
  },
  'Shell script for bash': {
    files: {
      'start.sh': `#!/usr/bin/env bash
words=(hello from bash)
exec node -e "require('http').createServer((q, r) => r.end('\${words[*]}')).listen(process.env.PORT)"
`,
    },
    log: /^chmod \+x start\.sh: took /m,
    answer: /^hello from bash$/,
  },
  'PHP without packages': {
    images: ['php'],
    files: { 'index.php': '<?php echo "hello from php ", extension_loaded("pdo_pgsql") ? "with" : "without", " pdo";' },
    log: /./,
    answer: /^hello from php with pdo$/,
  },
  'Java with Maven': {
    registry: 'https://repo.maven.apache.org/maven2/com/google/code/gson/gson/maven-metadata.xml',
    images: ['java', 'maven'],
    files: javaApp,
    log: /^using javac 21\.[^]* of Debian$/m,
    answer: /^\{"hello":"java"\}$/,
  },
}
