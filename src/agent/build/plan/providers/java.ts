import type { Provider } from '../types.ts'
import { versionOf } from '../versions.ts'

/** A Gradle or Maven project, with its own wrapper if it has one. */
export const java: Provider = {
  name: 'java',
  detect: project => ['pom.xml', 'gradlew', 'build.gradle', 'build.gradle.kts'].some(project.has),
  plan: project => {
    const isMaven = project.has('pom.xml')
    const maven = project.has('mvnw') ? './mvnw' : 'mvn'
    const gradle = project.has('gradlew') ? './gradlew' : 'gradle'
    const isSpring = project.text(isMaven ? 'pom.xml' : 'build.gradle').includes('org.springframework.boot')
    const libs = project.has('build.gradle') || project.has('build.gradle.kts') ? 'build/libs' : '*/build/libs'
    return {
      framework: isSpring ? 'spring' : null,
      tools: [versionOf(project, 'java')],
      install: [],
      build: [
        isMaven
          ? `${maven} -B -DskipTests clean install -Pproduction`
          : `${gradle} clean build -x check -x test -Pproduction`,
      ],
      start: isMaven
        ? 'java $JAVA_OPTS -jar target/*jar'
        : `java $JAVA_OPTS -jar $(ls -1 ${libs}/*jar | grep -v plain)`,
      staticDir: null,
      port: null,
    }
  },
}
