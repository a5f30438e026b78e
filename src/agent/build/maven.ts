/** The build script for Maven projects, with the JDK and Maven from Debian. */
import { cache, prelude } from './scripts.ts'

/** Adds the certificate authorities to Java's own list. keytool adds one certificate at a time. */
const trustOfJava = `if [ -n "\${MOTE_CA:-}" ]; then
  mkdir -p /run/mote-cas
  awk '/BEGIN CERT/ { n++ } { print > ("/run/mote-cas/" n) }' /run/mote-ca.pem
  for one in /run/mote-cas/*; do
    keytool -importcert -noprompt -cacerts -storepass changeit -alias "mote-\${one##*/}" -file "$one" > /dev/null 2>&1 || true
  done
fi
`

export const mavenScript = `${prelude}${cache}${trustOfJava}export HOME=/root MAVEN_OPTS="-Dmaven.repo.local=/cache/maven" MAVEN_USER_HOME=/cache/mvnw
export JAVA_HOME=/usr/lib/jvm/default-java
[ -e "$JAVA_HOME" ] || export JAVA_HOME=$(dirname $(dirname $(readlink -f $(command -v javac))))
unpack /src
cd /src
echo "using $(javac -version) of Debian"
steps "$INSTALL"
steps "$BUILD"
cd /
mv /src /out/app
finish app
`
