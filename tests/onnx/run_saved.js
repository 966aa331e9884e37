// Runs the files that test_save has written with onnxruntime-web: node run_saved.js MODULE FOLDER. Prints a line
// for each failure, and one with the counts.
const fs = require('fs');
const path = require('path');
const ort = require(process.argv[2]);

const types = {'<f4': ['float32', Float32Array], '<i4': ['int32', Int32Array], '<i8': ['int64', BigInt64Array], '|u1': ['uint8', Uint8Array]};

function read(file) {
    const bytes = fs.readFileSync(file);
    const header = bytes.toString('latin1', 10, 128);
    const [name, array] = types[/'descr': '(...)'/.exec(header)[1]];
    const dims = /'shape': \(([^)]*)\)/.exec(header)[1].split(',').filter((d) => d.trim() !== '').map(Number);
    const data = new array(bytes.buffer.slice(bytes.byteOffset + 128, bytes.byteOffset + bytes.length));
    return new ort.Tensor(name, data, dims);
}

async function run(folder, name) {
    const session = await ort.InferenceSession.create(fs.readFileSync(path.join(folder, name + '.onnx')),
                                                      {logSeverityLevel: 4});
    const inputs = {};
    for (const input of session.inputNames)
        inputs[input] = read(path.join(folder, `${name}.in.${input}.npy`));
    const outputs = await session.run(inputs);
    for (const output of session.outputNames) {
        const expected = read(path.join(folder, `${name}.out.${output}.npy`));
        const got = outputs[output];
        if (got.dims.join() !== expected.dims.join())
            throw new Error(`output ${output} is [${got.dims}], not [${expected.dims}]`);
        let largest = 1, worst = 0;
        for (let i = 0; i < expected.data.length; i++) {
            largest = Math.max(largest, Math.abs(Number(expected.data[i])));
            const difference = Math.abs(Number(got.data[i]) - Number(expected.data[i]));
            worst = difference <= worst ? worst : difference;
        }
        if (!(worst <= 1e-5 * largest))
            throw new Error(`output ${output} differs by ${worst}`);
    }
    await session.release();
}

async function main() {
    const folder = process.argv[3];
    let passed = 0, other = 0, failed = 0;
    ort.env.wasm.numThreads = 1;
    ort.env.logLevel = 'fatal';
    for (const file of fs.readdirSync(folder).filter((f) => f.endsWith('.onnx')).sort()) {
        const name = file.slice(0, -5);
        if (name.startsWith('narrow.')) { // bfloat16, which the engine does not have
            other++;
            continue;
        }
        try {
            await run(folder, name);
            passed++;
        } catch (reason) {
            failed++;
            console.log(`${file}: ${String(reason.message || reason).replace(/\s+/g, ' ').slice(0, 300)}`);
        }
    }
    console.log(`onnxruntime-web: ${passed} passed, ${other} not possible there, ${failed} failed`);
    process.exit(failed === 0 && passed > 0 ? 0 : 1);
}

main();
