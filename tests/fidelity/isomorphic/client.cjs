// Clones, commits, pushes what it was told to with isomorphic-git; prints JSON.
const fs = require('fs');
const path = require('path');
const { createRequire } = require('module');

const load = createRequire(path.join(process.argv[2], 'package.json'));
const git = load('isomorphic-git');
const http = load('isomorphic-git/http/node');
const [url, dir, ref] = process.argv.slice(3);
const author = { name: 'A', email: 'a@example.org' };

async function main() {
  await git.clone({ fs, http, dir, url });
  fs.writeFileSync(path.join(dir, 'new.txt'), 'new\n');
  await git.add({ fs, dir, filepath: 'new.txt' });
  const commit = await git.commit({ fs, dir, message: 'New', author });
  const told = { head: commit, files: fs.readdirSync(dir).sort(), error: null };
  try {
    const done = await git.push({ fs, http, dir, url, ref: 'main', remoteRef: ref });
    told.ok = done.ok;
  } catch (error) {
    told.ok = false;
    told.error = `${error.message} ${JSON.stringify(error.data || {})}`;
  }
  return told;
}

main().then(
  (told) => process.stdout.write(JSON.stringify(told)),
  (error) => {
    process.stderr.write(`${error.stack} ${JSON.stringify(error.data || {})}\n`);
    process.exit(1);
  },
);
